"""Programs of the kinds that models consist of, each written in two ways that are the same:
attention in parts, norms, rotations, gates, masks, losses, slices, experts, caches, windows.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

INF = float("inf")
QKV, HEADS = "6x8 10x8 10x8", "2x5x8 2x10x8 2x10x8"
ROW, SQUARE = "5x12", "2x10x10"
ROPE = "4x6x8 6x4 6x4"


def softmax_attention(q, k, v):
    return (q @ k.mT * 8**-0.5).softmax(-1) @ v


def tiled_attention(q, k, v, tiles=(4, 3, 3)):
    """Keys tile by tile, with a running maximum and a running sum."""
    o, m, s, start = 0.0, None, 0.0, 0
    for size in tiles:
        a = q @ k[start : start + size].t() * 8**-0.5
        now = a.amax(-1, keepdim=True) if m is None else torch.maximum(m, a.amax(-1, keepdim=True))
        p = torch.exp(a - now)
        change = 0.0 if m is None else torch.exp(m - now)
        o, s = o * change + p @ v[start : start + size], s * change + p.sum(-1, keepdim=True)
        m, start = now, start + size
    return o / s


def joined_attention(q, k, v):
    """Two halves of the keys, joined with the logarithms of their sums."""
    found = []
    for part in (slice(0, 6), slice(6, 10)):
        a = q @ k[part].t() * 8**-0.5
        found.append((a.softmax(-1) @ v[part], a.logsumexp(-1, keepdim=True)))
    (o1, l1), (o2, l2) = found
    total = torch.logaddexp(l1, l2)
    return o1 * torch.exp(l1 - total) + o2 * torch.exp(l2 - total)


def weighted_halves(q, k, v):
    """Two halves joined by a sigmoid of the difference of their logarithms."""
    a, b = (q @ k[part].t() * 8**-0.5 for part in (slice(0, 6), slice(6, 10)))
    w = torch.sigmoid(a.logsumexp(-1, keepdim=True) - b.logsumexp(-1, keepdim=True))
    return w * (a.softmax(-1) @ v[:6]) + (1.0 - w) * (b.softmax(-1) @ v[6:])


def in_powers_of_two(q, k, v):
    a = q @ k.t() * (8**-0.5 * math.log2(math.e))
    p = torch.exp2(a - a.amax(-1, keepdim=True))
    return (p @ v) / p.sum(-1, keepdim=True)


def with_sink(q, k, v):
    a = q @ k.t() * 8**-0.5
    a = torch.cat([a, torch.full((6, 1), 0.5)], -1)
    return a.softmax(-1)[:, :10] @ v


def sink_in_the_sum(q, k, v):
    a = q @ k.t() * 8**-0.5
    m = a.amax(-1, keepdim=True).clamp(min=0.5)
    p = torch.exp(a - m)
    return (p @ v) / (p.sum(-1, keepdim=True) + torch.exp(0.5 - m))


def capped(q, k, v):
    return (30.0 * torch.tanh(q @ k.t() / 30.0)).softmax(-1) @ v


def capped_by_exponentials(q, k, v):
    a = q @ k.t() / 30.0
    t = 1.0 - 2.0 / (torch.exp(2.0 * a) + 1.0)
    return (t * 30.0).softmax(-1) @ v


def rope(x, c, s):
    a, b = x[..., :4], x[..., 4:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def rope_by_half(x, c, s):
    turned = torch.cat([-x[..., 4:], x[..., :4]], -1)
    return x * torch.cat([c, c], -1) + turned * torch.cat([s, s], -1)


def rope_by_roll(x, c, s):
    signs = torch.cat([-torch.ones(4), torch.ones(4)])
    return x * c.repeat(1, 2) + x.roll(4, -1) * signs * s.repeat(1, 2)


def rope_stacked(x, c, s):
    y = x.reshape(4, 6, 2, 4)
    return torch.stack(
        [y[:, :, 0] * c - y[:, :, 1] * s, y[:, :, 0] * s + y[:, :, 1] * c], 2
    ).flatten(2)


def rms(x, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def experts(x, w, u, g):
    """Each token times a gate, for each of three experts."""
    p = g.softmax(-1)
    return sum(p[:, e : e + 1] * (F.silu(x @ w[e]) @ u[e]) for e in range(3))


def experts_at_once(x, w, u, g):
    h = F.silu(torch.einsum("td,edh->teh", x, w))
    return torch.einsum("te,teh,ehd->td", g.softmax(-1), h, u)


def experts_before(x, w, u, g):
    p = g.softmax(-1)
    h = torch.cat([p[:, e, None] * F.silu(x @ w[e]) for e in range(3)], -1)
    return h @ u.reshape(12, 6)


def triangle(n):
    return torch.ones(n, n).tril().bool()


def places(n):
    return torch.arange(n)


def groups_of(x, n):
    y = x.reshape(5, n, -1)
    c = y - y.mean(-1, keepdim=True)
    return (c / torch.sqrt(c.square().mean(-1, keepdim=True) + 1e-5)).reshape(5, 12)


KINDS_RIGHT: list[Pair] = [
    # attention in parts
    Pair("keys in three tiles", QKV, softmax_attention, tiled_attention, False),
    Pair(
        "tiles from behind",
        QKV,
        softmax_attention,
        lambda q, k, v: tiled_attention(q, k.flip(0), v.flip(0), (5, 5)),
        False,
    ),
    Pair("halves by their logarithms", QKV, softmax_attention, joined_attention, False),
    Pair("halves by a sigmoid", QKV, softmax_attention, weighted_halves, False),
    Pair("powers of two", QKV, softmax_attention, in_powers_of_two, False),
    Pair("a sink in the sum", QKV, with_sink, sink_in_the_sum, False),
    Pair("scores that are capped", QKV, capped, capped_by_exponentials, False),
    Pair(
        "a factor on both",
        QKV,
        softmax_attention,
        lambda q, k, v: ((q * 8**-0.25) @ (k * 8**-0.25).t()).softmax(-1) @ v,
        False,
    ),
    Pair(
        "a term of the query alone",
        QKV,
        lambda q, k, v: (q @ k.t()).softmax(-1) @ v,
        lambda q, k, v: (q @ (k - k[:1]).t()).softmax(-1) @ v,
        False,
    ),
    Pair(
        "values moved beside",
        QKV,
        softmax_attention,
        lambda q, k, v: softmax_attention(q, k, v - v[:1]) + v[:1],
        False,
    ),
    Pair(
        "attention of heads at once",
        HEADS,
        softmax_attention,
        lambda q, k, v: torch.stack([softmax_attention(q[h], k[h], v[h]) for h in (0, 1)]),
        False,
    ),
    Pair(
        "the library's attention",
        HEADS,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: torch.einsum("hqk,hkd->hqd", ((q / 8**0.5) @ k.mT).softmax(-1), v),
        False,
    ),
    # masks
    Pair(
        "causal by a triangle of infinities",
        SQUARE,
        lambda s: s.masked_fill(~triangle(10), -INF).softmax(-1),
        lambda s: (s + torch.full((10, 10), -INF).triu(1)).softmax(-1),
        False,
    ),
    Pair(
        "causal by places",
        SQUARE,
        lambda s: s.masked_fill(~triangle(10), -INF).softmax(-1),
        lambda s: torch.where(places(10)[:, None] >= places(10), s, -INF).softmax(-1),
        False,
    ),
    Pair(
        "causal by what is kept of exponentials",
        SQUARE,
        lambda s: s.masked_fill(~triangle(10), -INF).softmax(-1),
        lambda s: (lambda e: e / e.sum(-1, keepdim=True))(torch.exp(s) * triangle(10)),
        False,
    ),
    Pair(
        "a window by two triangles",
        SQUARE,
        lambda s: torch.where(triangle(10) & ~triangle(10).tril(-4), s, -INF).softmax(-1),
        lambda s: torch.where(
            (places(10) <= places(10)[:, None]) & (places(10)[:, None] - places(10) < 4), s, -INF
        ).softmax(-1),
        False,
    ),
    Pair(
        "blocks of five by quotients",
        SQUARE,
        lambda s: torch.where(places(10)[:, None] // 5 == places(10) // 5, s, -INF).softmax(-1),
        lambda s: torch.where(
            torch.block_diag(torch.ones(5, 5), torch.ones(5, 5)) > 0, s, -INF
        ).softmax(-1),
        False,
    ),
    # norms
    Pair(
        "moments of squares",
        ROW,
        lambda x: F.layer_norm(x, (12,)),
        lambda x: (
            (x - (m := x.mean(-1, keepdim=True)))
            * torch.rsqrt(x.square().mean(-1, keepdim=True) - m * m + 1e-5)
        ),
        False,
    ),
    Pair(
        "a norm as a product with a centred identity",
        "5x8",
        lambda x: F.layer_norm(x, (8,)),
        lambda x: rms(x @ (torch.eye(8) - 1.0 / 8.0), 1e-5),
        False,
    ),
    Pair(
        "gain and shift in the product",
        "5x12 12 12 12x7",
        lambda x, g, b, w: F.layer_norm(x, (12,), g, b) @ w,
        lambda x, g, b, w: F.layer_norm(x, (12,)) @ (g[:, None] * w) + b @ w,
        False,
    ),
    Pair(
        "a norm after its product",
        "5x12 12 12x7",
        lambda x, g, w: rms(x) * g @ w,
        lambda x, g, w: (
            (x @ (g[:, None] * w)) * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        ),
        False,
    ),
    Pair(
        "a gain of one more",
        "5x12 12",
        lambda x, g: rms(x) * (1.0 + g),
        lambda x, g: (lambda n: n + n * g)(rms(x)),
        False,
    ),
    Pair(
        "length instead of mean",
        ROW,
        lambda x: rms(x, 0.0),
        lambda x: x / x.norm(dim=-1, keepdim=True) * 12**0.5,
        False,
    ),
    Pair(
        "groups by hand",
        ROW,
        lambda x: F.group_norm(x, 3),
        lambda x: groups_of(x, 3),
        False,
    ),
    Pair(
        "norm of a scaled row without eps",
        ROW,
        lambda x: rms(3.0 * x, 0.0),
        lambda x: rms(x, 0.0),
        False,
    ),
    Pair(
        "eps in another unit",
        ROW,
        lambda x: rms(4.0 * x, 1.6e-5),
        lambda x: rms(x, 1e-6),
        False,
    ),
    # rotations
    Pair("halves turned", ROPE, rope, rope_by_half, False),
    Pair("halves rolled", ROPE, rope, rope_by_roll, False),
    Pair("halves stacked", ROPE, rope, rope_stacked, False),
    Pair(
        "turned twice",
        ROPE,
        lambda x, c, s: rope(rope(x, c, s), c, -s),
        lambda x, c, s: x * torch.cat([c * c + s * s] * 2, -1),
        False,
    ),
    # gates
    Pair(
        "gelu by exponentials",
        ROW,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x * torch.sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)),
        False,
    ),
    Pair(
        "gelu by a tangent",
        ROW,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * x * (1.0 + 0.044715 * x * x))),
        False,
    ),
    Pair("silu by a tangent", ROW, F.silu, lambda x: 0.5 * x * (1.0 + torch.tanh(0.5 * x)), False),
    Pair("silu of both signs", ROW, lambda x: F.silu(x) - F.silu(-x), lambda x: x, False),
    Pair("softplus by a sigmoid", ROW, F.logsigmoid, lambda x: -F.softplus(-x), False),
    Pair("mish", ROW, F.mish, lambda x: x * (1.0 - 2.0 / ((1.0 + x.exp()).square() + 1.0)), False),
    Pair(
        "gate and up in one product",
        "5x12 12x6 12x6",
        lambda x, g, u: F.silu(x @ g) * (x @ u),
        lambda x, g, u: (lambda h: F.silu(h[:, :6]) * h[:, 6:])(x @ torch.cat([g, u], 1)),
        False,
    ),
    # losses
    Pair(
        "log softmax by a maximum",
        ROW,
        lambda x: x.log_softmax(-1),
        lambda x: (x - (m := x.amax(-1, keepdim=True))) - (x - m).exp().sum(-1, keepdim=True).log(),
        False,
    ),
    Pair(
        "entropy",
        ROW,
        lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
        lambda x: x.logsumexp(-1) - (x.softmax(-1) * x).sum(-1),
        False,
    ),
    Pair(
        "cross entropy of probabilities",
        "5x12 5x12",
        lambda x, t: -(t.softmax(-1) * x.log_softmax(-1)).sum(-1),
        lambda x, t: x.logsumexp(-1) - (t.softmax(-1) * x).sum(-1),
        False,
    ),
    Pair(
        "divergence",
        "5x12 5x12",
        lambda x, t: F.kl_div(
            x.log_softmax(-1), t.log_softmax(-1), log_target=True, reduction="sum"
        ),
        lambda x, t: (t.softmax(-1) * (t.log_softmax(-1) - x.log_softmax(-1))).sum(),
        False,
    ),
    Pair(
        "softmax of a log softmax",
        ROW,
        lambda x: x.log_softmax(-1).softmax(-1),
        lambda x: x.softmax(-1),
        False,
    ),
    # slices, tilings
    Pair(
        "padded and cut at odd places",
        "5x13",
        lambda x: F.pad(x, (3, 2))[:, 5:14],
        lambda x: x[:, 2:11] * 1.0,
    ),
    Pair(
        "a product in odd parts",
        "5x13 13x6",
        lambda x, w: x @ w,
        lambda x, w: x[:, :5] @ w[:5] + x[:, 5:8] @ w[5:8] + x[:, 8:] @ w[8:],
        False,
    ),
    Pair(
        "sums in five and in sixteen",
        "2x240",
        lambda x: x.reshape(2, 5, 48).sum(-1).sum(-1),
        lambda x: x.reshape(2, 16, 15).sum(1).sum(-1),
        False,
    ),
    Pair(
        "sums of squares in tiles",
        "2x240",
        lambda x: x.reshape(2, 16, 15).square().sum(-1).amax(-1),
        lambda x: torch.stack(
            [x[:, 15 * i : 15 * i + 15].square().sum(-1) for i in range(16)]
        ).amax(0),
        False,
    ),
    # experts
    Pair("experts at once", "5x6 3x6x4 3x4x6 5x3", experts, experts_at_once, False),
    Pair("gates before the second product", "5x6 3x6x4 3x4x6 5x3", experts, experts_before, False),
    # caches
    Pair(
        "a cache with what is new",
        "1x8 9x8 9x8 1x8 1x8",
        lambda q, k, v, a, b: softmax_attention(q, torch.cat([k, a]), torch.cat([v, b])),
        lambda q, k, v, a, b: (
            lambda s, t: (
                lambda m: (
                    (torch.exp(s - m) @ v + torch.exp(t - m) * b)
                    / (torch.exp(s - m).sum(-1, keepdim=True) + torch.exp(t - m))
                )
            )(torch.maximum(s.amax(-1, keepdim=True), t))
        )(q @ k.t() * 8**-0.5, (q * a).sum(-1, keepdim=True) * 8**-0.5),
        False,
    ),
    Pair(
        "one row of a cache",
        "9x8 1x8",
        lambda c, x: torch.cat([c[:4], x, c[5:]]),
        lambda c, x: torch.where((places(9) == 4)[:, None], x, c),
    ),
    # windows
    Pair(
        "patches as a product",
        "2x3x8x8 5x3x4x4",
        lambda x, w: F.conv2d(x, w, stride=4).flatten(2).mT,
        lambda x, w: (
            x.reshape(2, 3, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(2, 4, 48)
            @ w.reshape(5, 48).t()
        ),
        False,
    ),
    Pair(
        "pointwise as a product",
        "2x3x5x5 4x3x1x1",
        lambda x, w: F.conv2d(x, w),
        lambda x, w: (w[:, :, 0, 0] @ x.flatten(2)).reshape(2, 4, 5, 5),
        False,
    ),
    # whole numbers
    Pair(
        "pages and places within",
        "6x8:i64",
        lambda i: (i // 16) * 16 * 4 + (i % 16) * 4,
        lambda i: i * 4,
    ),
    Pair("clamped twice", "6x8:i64", lambda i: i.clamp(0, 9).clamp(2, 20), lambda i: i.clamp(2, 9)),
]
