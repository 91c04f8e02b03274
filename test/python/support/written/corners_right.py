"""Corner cases: losses, norms with learned parameters, windows, places, whole numbers, orders and
running sums, each written in two ways that are the same.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

INF = float("inf")
ONE, TWO, THREE = "6x12", "6x12 6x12", "6x12 6x12 6x12"
CLASSES, WHOLE, MASKED = "6x12 6:i64", "6x8:i64", "6x12 6x12:b"


def line(n):
    return torch.arange(n)


def normed(x, eps=1e-5):
    c = x - x.mean(-1, keepdim=True)
    return c * torch.rsqrt(c.square().mean(-1, keepdim=True) + eps)


def joined_moments(x, y):
    """Mean and variance of two parts from those of each part."""
    n, m = x.shape[-1], y.shape[-1]
    a, b = x.mean(-1), y.mean(-1)
    s = x.var(-1, correction=0) * n + y.var(-1, correction=0) * m
    mean = (n * a + m * b) / (n + m)
    return mean, (s + (b - a) ** 2 * (n * m / (n + m))) / (n + m)


def moments_of_both(x, y):
    z = torch.cat([x, y], -1)
    return z.mean(-1), z.var(-1, correction=0)


def linear_attention(q, k, v):
    return ((q @ k.mT) * torch.ones(6, 6).tril()) @ v


def with_states(q, k, v):
    states = (k[..., :, None] * v[..., None, :]).cumsum(1)
    return (q[..., None, :] @ states)[..., 0, :]


def recurrence(x, a):
    h, found = torch.zeros(6), []
    for t in range(4):
        h = a[:, 0] * h + x[:, t]
        found.append(h)
    return torch.stack(found, 1)


def powers(x, a):
    a = a[:, :1]
    return torch.stack(
        [
            sum(a[:, 0] ** (t - s) * x[:, s] if t > s else x[:, s] for s in range(t + 1))
            for t in range(4)
        ],
        1,
    )


def convolved(x, w):
    return torch.einsum("bipk,oik->bop", F.pad(x, (1, 1)).unfold(-1, 3, 1), w)


def by_shifts(x, w):
    p = F.pad(x, (1, 1))
    return sum(torch.einsum("bil,oi->bol", p[..., k : k + 7], w[..., k]) for k in range(3))


def grouped(q, k, v):
    q = q.reshape(2, 2, 5, 8)
    p = (q @ k[:, None].mT * 8**-0.5).softmax(-1)
    return (p @ v[:, None]).reshape(4, 5, 8)


def repeated(q, k, v):
    k, v = k.repeat_interleave(2, 0), v.repeat_interleave(2, 0)
    return (q @ k.mT * 8**-0.5).softmax(-1) @ v


def quarters(x):
    return x.reshape(2, 3, 2, 4, 2).mean((2, 4))


def as_pairs(x, c, s):
    z = torch.view_as_complex(x.reshape(6, 6, 2)) * torch.complex(c, s)
    return torch.view_as_real(z).flatten(1)


def turned(x, c, s):
    a, b = x[:, ::2], x[:, 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(1)


TABLE = (torch.arange(96).reshape(12, 8) - 48) / 16.0
GAIN = (torch.arange(12) - 4) / 8.0

CORNERS_RIGHT: list[Pair] = [
    # losses
    Pair(
        "a loss by what is picked",
        CLASSES,
        lambda x, t: -F.log_softmax(x, -1).gather(1, t[:, None])[:, 0],
        lambda x, t: x.logsumexp(-1) - x.gather(1, t[:, None])[:, 0],
        False,
    ),
    Pair(
        "a smoothed loss",
        CLASSES,
        lambda x, t: (
            -0.9 * x.log_softmax(-1).gather(1, t[:, None])[:, 0] - 0.1 * x.log_softmax(-1).mean(-1)
        ),
        lambda x, t: x.logsumexp(-1) - 0.9 * x.gather(1, t[:, None])[:, 0] - 0.1 * x.mean(-1),
        False,
    ),
    Pair(
        "a loss of truth values by signs",
        TWO,
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
        lambda x, t: F.relu(x) - x * t + torch.log1p(torch.exp(-x.abs())),
        False,
    ),
    Pair(
        "derivative of a softmax",
        TWO,
        lambda x, g: (p := x.softmax(-1)) * (g - (g * p).sum(-1, keepdim=True)),
        lambda x, g: (
            (torch.diag_embed(p := x.softmax(-1)) - p[:, :, None] * p[:, None]) @ g[..., None]
        )[..., 0],
        False,
    ),
    Pair(
        "hinge by a limit",
        TWO,
        lambda x, t: (1.0 - x * t).clamp(min=0.0),
        lambda x, t: F.relu(1.0 - t * x),
        False,
    ),
    # functions
    Pair("gate of halves", ONE, F.glu, lambda x: x[:, :6] / (1.0 + torch.exp(-x[:, 6:])), False),
    Pair("hard gate", ONE, F.hardswish, lambda x: x * (x + 3.0).clamp(0.0, 6.0) / 6.0, False),
    Pair("relu by a sign", ONE, F.relu, lambda x: x * (x > 0)),
    Pair("soft sign", ONE, F.softsign, lambda x: x / (1.0 + x.abs()), False),
    Pair(
        "shrunk by two",
        ONE,
        lambda x: F.softshrink(x, 0.5),
        lambda x: F.relu(x - 0.5) - F.relu(-x - 0.5),
        False,
    ),
    Pair(
        "shrunk by a limit",
        ONE,
        lambda x: F.softshrink(x, 0.5),
        lambda x: x - x.clamp(-0.5, 0.5),
        False,
    ),
    Pair(
        "scaled exponential",
        ONE,
        lambda x: F.celu(x, 2.0),
        lambda x: F.relu(x) + torch.minimum(2.0 * torch.expm1(x / 2.0), torch.zeros(6, 12)),
        False,
    ),
    Pair(
        "gelu by its function of errors",
        ONE,
        F.gelu,
        lambda x: 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))),
        False,
    ),
    Pair(
        "a polynomial from inside",
        ONE,
        lambda x: ((0.5 * x - 2.0) * x + 3.0) * x - 1.0,
        lambda x: 0.5 * x**3 - 2.0 * x**2 + 3.0 * x - 1.0,
        False,
    ),
    Pair("tangent of both", ONE, lambda x: torch.tanh(x) * torch.cosh(x), torch.sinh, False),
    # norms
    Pair(
        "norm of channels in one pass",
        "2x6x5 6 6 6 6",
        lambda x, m, v, w, b: F.batch_norm(x, m, v * v, w, b, eps=1e-3),
        lambda x, m, v, w, b: (lambda a: x * a[:, None] + (b - m * a)[:, None])(
            w * torch.rsqrt(v * v + 1e-3)
        ),
        False,
    ),
    Pair("moments of parts", "6x5 6x7", moments_of_both, joined_moments, False),
    Pair(
        "norm with gain and shift",
        "6x12 12 12",
        lambda x, w, b: F.layer_norm(x, (12,), w, b),
        lambda x, w, b: normed(x) * w + b,
        False,
    ),
    Pair(
        "norm of a norm's mirror",
        ONE,
        lambda x: F.layer_norm(-x, (12,)),
        lambda x: -F.layer_norm(x, (12,)),
        False,
    ),
    Pair(
        "norm by groups as rows",
        "2x6x4 6",
        lambda x, w: F.group_norm(x, 3, w),
        lambda x, w: normed(x.reshape(2, 3, 8)).reshape(2, 6, 4) * w[:, None],
        False,
    ),
    Pair(
        "cosines of all",
        "5x8 7x8",
        lambda x, y: (x / x.norm(dim=-1, keepdim=True)) @ (y / y.norm(dim=-1, keepdim=True)).t(),
        lambda x, y: (x @ y.t()) / x.norm(dim=-1)[:, None] / y.norm(dim=-1)[None],
        False,
    ),
    # products
    Pair(
        "an adapter beside",
        "6x8 8x5 8x2 2x5",
        lambda x, w, a, b: x @ (w + a @ b),
        lambda x, w, a, b: x @ w + (x @ a) @ b,
        False,
    ),
    Pair(
        "mean before a product",
        "6x8 8x5",
        lambda x, w: x.mean(0) @ w,
        lambda x, w: (x @ w).mean(0),
        False,
    ),
    Pair("a window of three", "2x3x7 4x3x3", convolved, by_shifts, False),
    Pair("groups of queries", "4x5x8 2x6x8 2x6x8", repeated, grouped, False),
    Pair("attention without a softmax", "2x6x4 2x6x4 2x6x4", linear_attention, with_states, False),
    Pair(
        "trace of a product",
        "6x8 8x6",
        lambda x, y: (x @ y).diagonal().sum(),
        lambda x, y: (x * y.t()).sum(),
        False,
    ),
    Pair(
        "means of squares of an image",
        "2x6x8",
        lambda x: F.avg_pool2d(x[None], 2)[0],
        quarters,
        False,
    ),
    Pair("rotated as complex numbers", "6x12 6x6 6x6", as_pairs, turned, False),
    # running sums
    Pair("a recurrence by powers", "6x4 6x4", recurrence, powers, False),
    Pair(
        "largest so far by smallest",
        ONE,
        lambda x: x.cummax(-1).values,
        lambda x: -((-x).cummin(-1).values),
        False,
    ),
    Pair(
        "exponentials summed so far",
        ONE,
        lambda x: x.logcumsumexp(-1),
        lambda x: x.exp().cumsum(-1).log(),
        False,
    ),
    Pair("product so far", ONE, lambda x: x.exp().cumprod(-1), lambda x: x.cumsum(-1).exp(), False),
    Pair(
        "sum so far of what is seen",
        MASKED,
        lambda x, m: (x * m).cumsum(-1),
        lambda x, m: torch.where(m, x, 0.0).cumsum(-1),
        False,
    ),
    # whole numbers
    Pair("quotient and rest", WHOLE, lambda i: (i // 4) * 4 + i % 4, lambda i: i * 1),
    Pair("rounded up", WHOLE, lambda i: -((-i) // 3), lambda i: (i + 2) // 3),
    Pair("halves of odd numbers", WHOLE, lambda i: (2 * i + 1) // 2, lambda i: i * 1),
    Pair("rest of a sum", WHOLE, lambda i: (i + 12) % 6, lambda i: i % 6),
    Pair("quotient of a quotient", WHOLE, lambda i: (i // 2) // 3, lambda i: i // 6),
    Pair(
        "even by a comparison",
        WHOLE,
        lambda i: (i % 2 == 0).float(),
        lambda i: 1.0 - (i % 2).float(),
    ),
    # truth values
    Pair(
        "not both",
        "6x12 6x12:b 6x12:b",
        lambda x, a, b: torch.where(~(a & b), x, 0.0),
        lambda x, a, b: torch.where(~a | ~b, x, 0.0),
    ),
    Pair(
        "either but not both",
        "6x12 6x12:b 6x12:b",
        lambda x, a, b: torch.where(a ^ b, x, 0.0),
        lambda x, a, b: torch.where(a, torch.where(b, 0.0, x), torch.where(b, x, 0.0)),
    ),
    Pair(
        "any by a count",
        MASKED,
        lambda x, m: x[:, 0] * m.any(-1),
        lambda x, m: x[:, 0] * (m.sum(-1) > 0),
    ),
    Pair(
        "all by none not",
        MASKED,
        lambda x, m: x[:, 0] * m.all(-1),
        lambda x, m: x[:, 0] * ~(~m).any(-1),
    ),
    Pair(
        "logarithm where it is one",
        ONE,
        lambda x: torch.where(x > 0, torch.log(x), 0.0),
        lambda x: torch.log(torch.where(x > 0, x, 1.0)),
        False,
    ),
    Pair(
        "nothing seen is zero",
        MASKED,
        lambda x, m: torch.where(m.any(-1, keepdim=True), x.masked_fill(~m, -INF).softmax(-1), 0.0),
        lambda x, m: (lambda e: e / e.sum(-1, keepdim=True).clamp(min=1e-30))(
            (x - x.amax(-1, keepdim=True)).exp() * m
        ),
        False,
    ),
    # places
    Pair("rolled by places", ONE, lambda x: x[:, (line(12) + 3) % 12], lambda x: x.roll(-3, 1)),
    Pair("one of each row", "12x12", lambda x: x[line(12), line(12)], lambda x: x.diagonal() * 1),
    Pair(
        "counts times a table",
        "12x8 6:i64",
        lambda t, i: F.embedding(i, t).sum(0),
        lambda t, i: F.one_hot(i, 12).float().sum(0) @ t,
        False,
    ),
    Pair(
        "added by places",
        "6x4 6:i64",
        lambda x, i: torch.zeros(5, 4).index_add(0, i, x),
        lambda x, i: F.one_hot(i, 5).float().t() @ x,
        False,
    ),
    Pair("every third", ONE, lambda x: x[:, 1::3], lambda x: x.view(6, 4, 3)[..., 1] * 1),
    Pair(
        "slopes of distances",
        "2x12x12",
        lambda s: (
            (s - 0.5 * (line(12)[:, None] - line(12)).abs())
            .masked_fill(~torch.ones(12, 12).tril().bool(), -INF)
            .softmax(-1)
        ),
        lambda s: (s + 0.5 * line(12)).masked_fill(line(12) > line(12)[:, None], -INF).softmax(-1),
        False,
    ),
    # orders
    Pair(
        "largest of what is bounded",
        ONE,
        lambda x: F.relu(x).topk(3).values,
        lambda x: F.relu(x.topk(3).values),
    ),
    Pair(
        "sorted by its order", ONE, lambda x: x.gather(1, x.argsort(-1)), lambda x: x.sort().values
    ),
    Pair(
        "first of the largest by places",
        ONE,
        lambda x: x.argmax(-1),
        lambda x: torch.where(x == x.amax(-1, keepdim=True), line(12), 12).amin(-1),
    ),
    Pair(
        "sorted downwards",
        ONE,
        lambda x: x.sort(descending=True).values,
        lambda x: -((-x).sort().values),
        False,
    ),
    # tensors that programs hold
    Pair(
        "a table with its gain",
        ONE,
        lambda x: (x * GAIN) @ TABLE,
        lambda x: x @ (GAIN[:, None] * TABLE),
        False,
    ),
    Pair("zeros added", ONE, lambda x: x @ TABLE + torch.zeros(8), lambda x: x @ TABLE),
    Pair("a table turned", ONE, lambda x: x @ TABLE, lambda x: F.linear(x, TABLE.t().contiguous())),
]
