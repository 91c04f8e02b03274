"""Programs for serving models, each written in two ways that are the same: scales by the largest
element, eight bits, masks and running maxima, gathered losses, gates of experts.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

INF = float("inf")
E4M3 = torch.float8_e4m3fn
ROW, HALF, QKV = "6x16", "6x16:f16", "6x8 12x8 12x8"
PRODUCT = "6x16 16x8"
SEEN = "6x8 12x8 12x8 6x12:b"


def scaled(x):
    return x.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448.0


def quantised_product(x, w):
    s = scaled(x)
    return ((x / s).to(E4M3).float() @ w) * s


def largest_by_both_ends(x):
    """The largest magnitude as the larger of the maximum and the negative minimum."""
    return torch.maximum(x.amax(-1, keepdim=True), (-x).amax(-1, keepdim=True))


def seen_attention(q, k, v, m):
    a = (q @ k.t() * 8**-0.5).masked_fill(~m, -1e30)
    return a.softmax(-1) @ v


def seen_in_tiles(q, k, v, m):
    """Two tiles of keys; the running maximum starts with that of the first tile."""
    a = (q @ k.t() * 8**-0.5).masked_fill(~m, -1e30)
    first, rest = a[:, :6], a[:, 6:]
    m1 = first.amax(-1, keepdim=True)
    m2 = torch.maximum(m1, rest.amax(-1, keepdim=True))
    p1, p2 = torch.exp(first - m1), torch.exp(rest - m2)
    c = torch.exp(m1 - m2)
    return (c * (p1 @ v[:6]) + p2 @ v[6:]) / (
        c * p1.sum(-1, keepdim=True) + p2.sum(-1, keepdim=True)
    )


def rms(x, g, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * g


def alibi(q, k, v):
    places = torch.arange(12)[None, :] - torch.arange(6)[:, None]
    return (q @ k.t() * 8**-0.5 - 0.25 * places.abs()).softmax(-1) @ v


def alibi_by_maximum(q, k, v):
    i, j = torch.arange(6.0)[:, None], torch.arange(12.0)[None, :]
    a = q @ k.t() * 8**-0.5 + torch.minimum(i - j, j - i) * 0.25
    p = torch.exp(a - a.amax(-1, keepdim=True))
    return (p / p.sum(-1, keepdim=True)) @ v


SELF = "2x24x8 2x24x8 2x24x8"


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def window_of_five(q, k, v):
    i, j = torch.arange(24)[:, None], torch.arange(24)[None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (i - j < 5))


def triangle(rows=24, columns=24, diagonal=0):
    return torch.ones(rows, columns, dtype=torch.bool).tril(diagonal)


def scores(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def parts(q, k, v, first=5):
    """Two uneven parts of the keys, and the logarithms of their sums."""
    found = []
    for some in (slice(None, first), slice(first, None)):
        a = q @ k[some].t() * 8**-0.5
        found += [a.softmax(-1) @ v[some], a.logsumexp(-1, keepdim=True)]
    return found


def joined_by_a_sigmoid(q, k, v):
    a, m, b, n = parts(q, k, v)
    return a * torch.sigmoid(m - n) + b * torch.sigmoid(n - m)


def joined_by_a_sum(q, k, v):
    a, m, b, n = parts(q, k, v)
    total = torch.logaddexp(m, n)
    return a * torch.exp(m - total) + b * torch.exp(n - total)


def joined_by_the_larger(q, k, v):
    a, m, b, n = parts(q, k, v)
    largest = torch.maximum(m, n)
    x, y = torch.exp(m - largest), torch.exp(n - largest)
    return (a * x + b * y) / (x + y)


def attended(q, k, v):
    return (q @ k.t() * 8**-0.5).softmax(-1) @ v


SERVING_RIGHT: list[Pair] = [
    # uneven parts
    Pair("joined by a sigmoid", QKV, attended, joined_by_a_sigmoid),
    Pair("joined by the larger", QKV, attended, joined_by_the_larger),
    # masks that one of two programs holds
    Pair(
        "causal, filled by a held triangle",
        SELF,
        causal,
        lambda q, k, v: scores(q, k).masked_fill(~triangle(), -INF).softmax(-1) @ v,
    ),
    Pair(
        "causal, chosen by a held triangle",
        SELF,
        causal,
        lambda q, k, v: torch.where(triangle(), scores(q, k), -INF).softmax(-1) @ v,
    ),
    Pair(
        "causal, a held triangle of infinities added",
        SELF,
        causal,
        lambda q, k, v: (scores(q, k) + torch.full((24, 24), -INF).triu(1)).softmax(-1) @ v,
    ),
    Pair(
        "a window by held triangles",
        SELF,
        window_of_five,
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=triangle() & ~triangle(diagonal=-5)
        ),
    ),
    Pair(
        "a window as held numbers",
        SELF,
        window_of_five,
        lambda q, k, v: F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=torch.zeros(24, 24).masked_fill(triangle(diagonal=-5), -INF)
            + torch.full((24, 24), -INF).triu(1),
        ),
    ),
    # scales by the largest
    Pair(
        "largest of magnitudes by both ends",
        ROW,
        lambda x: x / (x.abs().amax(-1, keepdim=True) + 1.0),
        lambda x: x / (largest_by_both_ends(x) + 1.0),
    ),
    Pair(
        "scale after the product",
        PRODUCT,
        lambda x, w: (x * scaled(x)) @ w,
        lambda x, w: (x @ w) * scaled(x),
    ),
    Pair("quantised alike", PRODUCT, quantised_product, lambda x, w: quantised_product(x, w) * 1.0),
    Pair(
        "quantised rows beside",
        PRODUCT,
        quantised_product,
        lambda x, w: torch.cat([quantised_product(x[:3], w), quantised_product(x[3:], w)]),
    ),
    Pair(
        "quantised, columns apart",
        PRODUCT,
        quantised_product,
        lambda x, w: torch.cat(
            [quantised_product(x, w[:, :4]), quantised_product(x, w[:, 4:])], -1
        ),
    ),
    Pair(
        "scale of each column",
        "16x8 8",
        lambda w, s: (w * s).t(),
        lambda w, s: w.t() * s[:, None],
    ),
    # masks and maxima
    Pair("seen in two tiles", SEEN, seen_attention, seen_in_tiles),
    Pair("slopes by the smaller", QKV, alibi, alibi_by_maximum),
    Pair(
        "masked after the scale",
        SEEN,
        seen_attention,
        lambda q, k, v, m: torch.where(m, q @ k.t() * 8**-0.5, -1e30).softmax(-1) @ v,
    ),
    Pair(
        "scores divided by a root",
        QKV,
        lambda q, k, v: (q @ k.t() / 8**0.5).softmax(-1) @ v,
        lambda q, k, v: ((q * 8**-0.25) @ (k * 8**-0.25).t()).softmax(-1) @ v,
    ),
    Pair(
        "total divided at last",
        QKV,
        lambda q, k, v: (q @ k.t()).softmax(-1) @ v,
        lambda q, k, v: (lambda p: (p @ v) * (1.0 / p.sum(-1, keepdim=True)))(
            torch.exp(q @ k.t() - (q @ k.t()).amax(-1, keepdim=True))
        ),
    ),
    # norms
    Pair(
        "norm of a sum of two",
        "6x16 6x16 16",
        lambda x, y, g: rms(x + y, g),
        lambda x, y, g: rms(y + x, g),
    ),
    Pair(
        "gain in the weight of a product",
        "6x16 16 16x8",
        lambda x, g, w: rms(x, g) @ w,
        lambda x, g, w: (
            (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)) @ (g[:, None] * w)
        ),
    ),
    Pair(
        "norm of each head",
        "6x4x8 8",
        rms,
        lambda x, g: rms(x.reshape(24, 8), g).reshape(6, 4, 8),
    ),
    Pair(
        "norm of heads, moved",
        "6x4x8 8",
        lambda x, g: rms(x, g).transpose(0, 1),
        lambda x, g: rms(x.transpose(0, 1), g),
    ),
    Pair(
        "variance by differences",
        ROW,
        lambda x: F.layer_norm(x, (16,)),
        lambda x: (lambda c: c / ((c * c).sum(-1, keepdim=True) / 16.0 + 1e-5).sqrt())(
            x - x.sum(-1, keepdim=True) / 16.0
        ),
    ),
    # losses, tables
    Pair(
        "loss by a gather",
        "6x10 6:i64",
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda x, t: x.logsumexp(-1) - x.gather(1, t[:, None])[:, 0],
    ),
    Pair(
        "rows, then a product",
        "10x16 16x8 6:i64",
        lambda e, w, t: F.embedding(t, e) @ w,
        lambda e, w, t: e.index_select(0, t) @ w,
    ),
    Pair(
        "rows in two parts",
        "10x16 6:i64",
        lambda e, t: e[t],
        lambda e, t: torch.cat([e[t[:2]], e[t[2:]]]),
    ),
    # gates
    Pair(
        "gate and up as one",
        "6x16 16x24",
        lambda x, w: F.silu(x @ w[:, :12]) * (x @ w[:, 12:]),
        lambda x, w: (lambda g, u: g * u * torch.sigmoid(g))(*(x @ w).chunk(2, -1)),
    ),
    Pair(
        "gate by halves of a tangent",
        "6x16 6x16",
        lambda x, y: torch.sigmoid(x) * y,
        lambda x, y: 0.5 * y * (torch.tanh(0.5 * x) + 1.0),
        rounding=False,
    ),
    Pair(
        "experts by their weights",
        "6x8 3x8x8 6x3",
        lambda x, w, g: sum(g[:, e, None] * (x @ w[e]) for e in range(3)),
        lambda x, w, g: torch.einsum("te,td,edh->th", g, x, w),
    ),
    Pair(
        "shared and routed",
        "6x8 8x8 8x8",
        lambda x, a, b: x @ a + x @ b,
        lambda x, a, b: x @ (a + b),
    ),
    Pair(
        "gelu with its constants multiplied",
        ROW,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + torch.tanh(x * (0.7978845608028654 + 0.0356774081363 * x * x))),
    ),
    # whole numbers
    Pair("blocks by shifts", "9:i64", lambda i: (i // 4) * 4 + i % 4, lambda i: i),
    Pair(
        "pages and places",
        "9:i64",
        lambda i: (i // 16, i % 16),
        lambda i: (torch.div(i, 16, rounding_mode="floor"), i - 16 * (i // 16)),
    ),
    # rows that are never masked completely, for any mask of the caller
    Pair(
        "a triangle or what is allowed",
        "2x8x4 2x8x4 2x8x4 8:b",
        lambda q, k, v, b: F.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.ones(8, 8).tril().bool() | b
        ),
        lambda q, k, v, b: (
            (q @ k.mT * 4**-0.5)
            .masked_fill((torch.arange(8)[:, None] < torch.arange(8)) & ~b, -INF)
            .softmax(-1)
            @ v
        ),
    ),
]
