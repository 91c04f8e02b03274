"""Programs that are the same, although this is hard to see."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

LOG2E = math.log2(math.e)
INF = float("inf")


def layer_norm(x, g, b):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * g + b


def attention(q, k, v, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (q @ k.transpose(-1, -2) * scale).softmax(-1) @ v


def flash_exp2(q, k, v):
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 * LOG2E)
    p = torch.exp2(s - s.amax(-1, keepdim=True))
    return (p @ v) / p.sum(-1, keepdim=True)


def parts(q, k, v):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - m)
    total = p.sum(-1, keepdim=True)
    return p @ v / total, m + torch.log(total)


def joined_attention(q, k, v):
    (a, l1), (b, l2) = parts(q, k[:, :5], v[:, :5]), parts(q, k[:, 5:], v[:, 5:])
    m = torch.maximum(l1, l2)
    w1, w2 = torch.exp(l1 - m), torch.exp(l2 - m)
    return (a * w1 + b * w2) / (w1 + w2)


def logsumexp(x):
    m = x.amax(-1)
    return m + torch.log(torch.exp(x - m[:, None]).sum(-1))


def added(a, b):
    """The logarithm of the sum of ``exp(a)`` and ``exp(b)``."""
    m = torch.maximum(a, b)
    return m + torch.log(torch.exp(a - m) + torch.exp(b - m))


def joined_by_logarithms(q, k, v):
    (a, l1), (b, l2) = parts(q, k[:, :5], v[:, :5]), parts(q, k[:, 5:], v[:, 5:])
    total = added(l1, l2)
    return a * torch.exp(l1 - total) + b * torch.exp(l2 - total)


def online_attention(q, k, v):
    m = l = o = None
    for i in range(0, 12, 4):
        s = q @ k[:, i : i + 4].transpose(-1, -2) * q.shape[-1] ** -0.5
        now = s.amax(-1, keepdim=True)
        if m is not None:
            now = torch.maximum(m, now)
        p = torch.exp(s - now)
        if m is None:
            l, o = p.sum(-1, keepdim=True), p @ v[:, i : i + 4]
        else:
            c = torch.exp(m - now)
            l, o = l * c + p.sum(-1, keepdim=True), o * c + p @ v[:, i : i + 4]
        m = now
    return o / l


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rope_hf(x, c, s):
    c, s = torch.cat((c, c), -1), torch.cat((s, s), -1)
    return x * c + rotate_half(x) * s


def rope_halves(x, c, s):
    a, b = x[..., :4], x[..., 4:]
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def rope_interleaved(x, c, s):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


def rope_pairs(x, c, s):
    pairs = x.unflatten(-1, (4, 2))
    turned = torch.stack((-pairs[..., 1], pairs[..., 0]), -1)
    return (pairs * c[..., None] + turned * s[..., None]).flatten(-2)


def positions(n):
    return torch.arange(n)[:, None], torch.arange(n)[None, :]


def masked_softmax(mask):
    def program(x):
        i, j = positions(12)
        return x.masked_fill(~mask(i, j), -INF).softmax(-1)

    return program


def where_softmax(mask):
    def program(x):
        i, j = positions(12)
        return torch.where(mask(i, j), x, -INF).softmax(-1)

    return program


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_sigmoid(x):
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def chunks(x, w, count):
    n = x.shape[-1] // count
    return sum(x[:, i * n : (i + 1) * n] @ w[i * n : (i + 1) * n] for i in range(count))


def group_norm(x):
    y = x.reshape(2, 3, -1)
    y = (y - y.mean(-1, keepdim=True)) * torch.rsqrt(y.var(-1, unbiased=False, keepdim=True) + 1e-5)
    return y.reshape(x.shape)


def grouped_queries(q, k, v):
    kv = [t.repeat_interleave(2, dim=0) for t in (k, v)]
    return attention(q, *kv)


def grouped_rows(q, k, v):
    rows = q.reshape(2, 2 * 5, 8)
    return attention(rows, k, v).reshape(4, 5, 8)


def masked_mean(h, m):
    m = m[..., None]
    return (h * m).sum(1) / m.sum(1).clamp(min=1e-9)


def masked_mean_product(h, m):
    total = torch.einsum("bsd,bs->bd", h, m)
    return total / m.sum(1, keepdim=True).clamp(min=1e-9)


def with_sink(x, sink):
    full = torch.cat((x, sink[:, None]), -1).softmax(-1)
    return full[:, :-1]


def sink_in_the_sum(x, sink):
    m = torch.maximum(x.amax(-1, keepdim=True), sink[:, None])
    e = torch.exp(x - m)
    return e / (e.sum(-1, keepdim=True) + torch.exp(sink[:, None] - m))


RIGHT: list[Pair] = [
    Pair("layer norm", "6x16 16 16", lambda x, g, b: F.layer_norm(x, (16,), g, b), layer_norm),
    Pair("rms by rsqrt", "6x16 16",
         lambda x, g: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g,
         lambda x, g: g * (x / torch.sqrt((x * x).sum(-1, keepdim=True) / 16 + 1e-6))),
    Pair("group norm over rows", "2x6x8", lambda x: F.group_norm(x, 3), group_norm),
    Pair("one group is a layer", "2x4x6", lambda x: F.group_norm(x, 1),
         lambda x: F.layer_norm(x, (4, 6))),
    Pair("group norm, a channel each", "2x4x8", lambda x: F.group_norm(x, 4),
         lambda x: (x - x.mean(-1, keepdim=True))
         * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + 1e-5)),
    Pair("variance of a sample", "6x9", lambda x: x.var(-1),
         lambda x: (x - x.mean(-1, keepdim=True)).square().sum(-1) / 8),
    Pair("norm and linear", "4x16 16 16x8",
         lambda x, g, w: (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g) @ w,
         lambda x, g, w: (x @ (g[:, None] * w))
         * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), False),
    Pair("softmax by hand", "6x12", lambda x: x.softmax(-1),
         lambda x: (x - x.amax(-1, keepdim=True)).exp()
         / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)),
    Pair("softmax by exp2", "6x12", lambda x: x.softmax(-1),
         lambda x: torch.exp2((x - x.amax(-1, keepdim=True)) * LOG2E)
         / torch.exp2((x - x.amax(-1, keepdim=True)) * LOG2E).sum(-1, keepdim=True), False),
    Pair("softmax by logsumexp", "6x12", lambda x: x.softmax(-1),
         lambda x: torch.exp(x - logsumexp(x)[:, None]), False),
    Pair("softmax, other axis", "6x12", lambda x: x.softmax(0),
         lambda x: x.t().softmax(-1).t()),
    Pair("fake quantisation", "6x12", lambda x: torch.floor(x / 0.25 + 0.5) * 0.25,
         lambda x: torch.floor(x * 4 + 0.5) / 4),
    Pair("logsumexp with a maximum", "6x12", logsumexp,
         lambda x: x.amax(-1) + (x - x.amax(-1, keepdim=True)).exp().sum(-1).log()),
    Pair("logsumexp of two parts", "6x12", logsumexp,
         lambda x: added(logsumexp(x[:, :7]), logsumexp(x[:, 7:])), False),
    Pair("attention by exp2", "2x4x8 2x12x8 2x12x8", attention, flash_exp2, False),
    Pair("attention as one op", "2x4x8 2x12x8 2x12x8", F.scaled_dot_product_attention, attention),
    Pair("attention joined", "2x4x8 2x12x8 2x12x8", attention, joined_attention),
    Pair("attention joined by logarithms", "2x4x8 2x12x8 2x12x8", attention, joined_by_logarithms,
         False),
    Pair("attention step by step", "2x4x8 2x12x8 2x12x8", attention, online_attention),
    Pair("two factors of the scale", "2x4x8 2x12x8 2x12x8", attention,
         lambda q, k, v: attention(q * 8**-0.25, k * 8**-0.25, v, 1.0)),
    Pair("normalised afterwards", "2x4x8 2x12x8 2x12x8", attention,
         lambda q, k, v: (lambda e: e @ v / e.sum(-1, keepdim=True))(
             (lambda s: (s - s.amax(-1, keepdim=True)).exp())(q @ k.mT / math.sqrt(8)))),
    Pair("grouped queries", "4x5x8 2x6x8 2x6x8", grouped_queries, grouped_rows),
    Pair("a sink", "6x12 6", with_sink, sink_in_the_sum),
    Pair("softcap", "6x12", lambda x: (30 * torch.tanh(x / 30)).softmax(-1),
         lambda x: ((x * (1 / 30)).tanh() * 30).softmax(-1)),
    Pair("gelu tanh", "6x12", lambda x: F.gelu(x, approximate="tanh"), gelu_tanh),
    Pair("gelu tanh by sigmoid", "6x12", gelu_tanh, gelu_sigmoid, False),
    Pair("silu", "6x12", F.silu, lambda x: x * torch.sigmoid(x)),
    Pair("silu by exp", "6x12", F.silu, lambda x: x / (1 + torch.exp(-x))),
    Pair("silu by tanh", "6x12", F.silu, lambda x: x * 0.5 * (1 + torch.tanh(x / 2)), False),
    Pair("sigmoid from behind", "6x12", torch.sigmoid, lambda x: 1 - torch.sigmoid(-x), False),
    Pair("tanh by exponentials", "6x12", torch.tanh,
         lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1), False),
    Pair("swiglu of one product", "4x8 8x12", lambda x, w: F.silu((x @ w)[:, :6]) * (x @ w)[:, 6:],
         lambda x, w: F.silu(x @ w[:, :6]) * (x @ w[:, 6:])),
    Pair("softplus", "6x12", lambda x: torch.log1p(torch.exp(x)),
         lambda x: torch.log(1 + torch.exp(x)), False),
    Pair("magnitude as a maximum", "6x12", torch.abs, lambda x: torch.maximum(x, -x)),
    Pair("clamp by two", "6x12", lambda x: x.clamp(-1, 2),
         lambda x: torch.minimum(torch.maximum(x, torch.tensor(-1.0)), torch.tensor(2.0))),
    Pair("hardtanh of six", "6x12", F.relu6, lambda x: x.clamp(0, 6)),
    Pair("minimum of negatives", "6x12 6x12", torch.minimum, lambda x, y: -torch.maximum(-x, -y)),
    Pair("rotary, halves", "3x5x8 5x4 5x4", rope_hf, rope_halves),
    Pair("rotary, neighbours", "3x5x8 5x4 5x4", rope_interleaved, rope_pairs),
    Pair("rotary of its inverse", "3x5x8 5x4 5x4",
         lambda x, c, s: rope_halves(rope_halves(x, c, s), c, -s),
         lambda x, c, s: x * torch.cat((c * c + s * s,) * 2, -1), False),
    Pair("causal, filled or chosen", "12x12", masked_softmax(lambda i, j: j <= i),
         where_softmax(lambda i, j: i >= j)),
    Pair("causal, next one is below", "12x12", masked_softmax(lambda i, j: j <= i),
         where_softmax(lambda i, j: j < i + 1)),
    Pair("causal by tril", "12x12", masked_softmax(lambda i, j: j <= i),
         lambda x: x.masked_fill(torch.ones(12, 12).tril() == 0, -INF).softmax(-1)),
    Pair("window", "12x12", masked_softmax(lambda i, j: (j <= i) & (i - j < 4)),
         where_softmax(lambda i, j: ~((j > i) | (j <= i - 4)))),
    Pair("window, a difference", "12x12", masked_softmax(lambda i, j: (i - j >= 0) & (i - j < 4)),
         where_softmax(lambda i, j: (j > i - 4) & (i >= j))),
    Pair("three conditions", "12x12",
         masked_softmax(lambda i, j: ((j <= i) & (i - j < 5)) | (j < 2)),
         where_softmax(lambda i, j: (j <= 1) | ((i - j < 5) & (j <= i)))),
    Pair("in five tiles", "4x240 240x6", lambda x, w: x @ w, lambda x, w: chunks(x, w, 5)),
    Pair("in sixteen tiles", "4x240 240x6", lambda x, w: chunks(x, w, 5),
         lambda x, w: chunks(x, w, 16)),
    Pair("cut at an odd place", "6x12 12x4", lambda x, w: torch.relu(x @ w),
         lambda x, w: torch.relu(x[:, :5] @ w[:5] + x[:, 5:] @ w[5:])),
    Pair("columns one by one", "6x7", lambda x: x.exp(),
         lambda x: torch.cat([x[:, i : i + 1].exp() for i in range(7)], 1)),
    Pair("low rank", "4x8 8x8 8x2 2x8", lambda x, w, a, b: x @ (w + a @ b),
         lambda x, w, a, b: x @ w + (x @ a) @ b),
    Pair("one product for three", "4x8 8x18", lambda x, w: (x @ w).split(6, -1),
         lambda x, w: tuple(x @ w[:, i : i + 6] for i in (0, 6, 12))),
    Pair("transposed product", "4x8 8x6", lambda x, w: (x @ w).t(), lambda x, w: w.t() @ x.t()),
    Pair("einsum", "2x5x8 2x7x8", lambda q, k: torch.einsum("bid,bjd->bij", q, k),
         lambda q, k: (q[:, :, None] * k[:, None]).sum(-1)),
    Pair("mean of means", "3x4x5", lambda x: x.mean((1, 2)), lambda x: x.mean(1).sum(-1) / 5),
    Pair("masked mean", "2x6x4 2x6", masked_mean, masked_mean_product),
    Pair("bag of words", "2x6x4 2x6", lambda h, m: torch.einsum("bs,bsd->bd", m, h),
         lambda h, m: (m[:, None] @ h)[:, 0]),
    Pair("batch norm folded", "4x6 6 6 6 6",
         lambda x, m, v, g, b: (x - m) / torch.sqrt(v * v + 1e-5) * g + b,
         lambda x, m, v, g, b: x * (g / torch.sqrt(v * v + 1e-5))
         + (b - m * g / torch.sqrt(v * v + 1e-5)), False),
    Pair("powers", "6x12", lambda x: x**3 + x**2, lambda x: x * x * (x + 1), False),
]  # fmt: skip
