"""Programs of many kinds that are the same: constants, exponentials, maxima, roots, parts, masks,
rows, norms and roundings as people write them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

ONE, TWO, THREE = "6x12", "6x12 6x12", "6x12 6x12 6x12"
HEADS = "2x6x8 2x6x8 2x6x8"
INF = float("inf")


def lse(x):
    m = x.amax(-1, keepdim=True)
    return m + torch.log(torch.exp(x - m).sum(-1, keepdim=True))


def scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def part(q, k, v):
    s = scores(q, k)
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - m)
    return m, p.sum(-1, keepdim=True), p @ v


def merged(a, b):
    (m1, l1, o1), (m2, l2, o2) = a, b
    m = torch.maximum(m1, m2)
    w1, w2 = torch.exp(m1 - m), torch.exp(m2 - m)
    return m, l1 * w1 + l2 * w2, o1 * w1 + o2 * w2


def in_three(q, k, v):
    cuts = [(0, 1), (1, 4), (4, 6)]
    parts = [part(q, k[:, a:b], v[:, a:b]) for a, b in cuts]
    _, total, out = merged(merged(parts[0], parts[1]), parts[2])
    return out / total


def attention(q, k, v):
    return scores(q, k).softmax(-1) @ v


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def rows_below(n):
    i = torch.arange(n)
    return i[None] <= i[:, None]


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


def moments(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)


FAMILIES_RIGHT: list[Pair] = [
    # constants
    Pair("a third of three", ONE, lambda x: x * 3.0 * (1.0 / 3.0), lambda x: x * 1.0, False),
    Pair(
        "scale in both factors",
        "2x6x8 2x6x8",
        lambda q, k: (q * 8**-0.25) @ (k * 8**-0.25).transpose(-1, -2),
        scores,
        False,
    ),
    Pair(
        "powers of two as exponentials",
        ONE,
        lambda x: torch.exp2(x * 3.0),
        lambda x: torch.exp(x * (3.0 * math.log(2.0))),
        False,
    ),
    Pair(
        "sigmoid by powers of two",
        ONE,
        torch.sigmoid,
        lambda x: 1.0 / (1.0 + torch.exp2(-x * math.log2(math.e))),
        False,
    ),
    Pair(
        "decibels",
        ONE,
        lambda x: 10.0 * torch.log10(x * x + 1.0),
        lambda x: torch.log(x * x + 1.0) * (10.0 / math.log(10.0)),
        False,
    ),
    Pair(
        "degrees",
        ONE,
        lambda x: torch.sin(x * (math.pi / 180.0)),
        lambda x: torch.sin(torch.deg2rad(x)),
        False,
    ),
    # activations by exponentials
    Pair("tanh by sigmoid", ONE, torch.tanh, lambda x: 2.0 * torch.sigmoid(2.0 * x) - 1.0, False),
    Pair("silu by tanh", ONE, F.silu, lambda x: 0.5 * x * (1.0 + torch.tanh(0.5 * x)), False),
    Pair(
        "sigmoid of both signs",
        ONE,
        lambda x: torch.sigmoid(x) + torch.sigmoid(-x),
        lambda x: x * 0.0 + 1.0,
        False,
    ),
    Pair(
        "derivative of sigmoid",
        ONE,
        lambda x: torch.sigmoid(x) * (1.0 - torch.sigmoid(x)),
        lambda x: torch.sigmoid(x) * torch.sigmoid(-x),
        False,
    ),
    Pair(
        "derivative of tanh",
        ONE,
        lambda x: 1.0 - torch.tanh(x) ** 2,
        lambda x: 4.0 * torch.sigmoid(2.0 * x) * torch.sigmoid(-2.0 * x),
        False,
    ),
    Pair(
        "gate of two",
        TWO,
        lambda x, y: torch.sigmoid(x - y),
        lambda x, y: torch.exp(x) / (torch.exp(x) + torch.exp(y)),
        False,
    ),
    Pair(
        "softplus less its mirror",
        ONE,
        lambda x: F.softplus(x) - F.softplus(-x),
        lambda x: x * 1.0,
        False,
    ),
    Pair("log sigmoid", ONE, F.logsigmoid, lambda x: x - F.softplus(x), False),
    Pair(
        "cross-entropy of truth values",
        TWO,
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
        lambda x, t: F.softplus(x) - x * t,
        False,
    ),
    Pair(
        "swish gate", TWO, lambda x, y: F.silu(x) * y, lambda x, y: x * y * torch.sigmoid(x), False
    ),
    Pair(
        "hyperbolic cosine", ONE, torch.cosh, lambda x: 0.5 * (torch.exp(x) + torch.exp(-x)), False
    ),
    # softmax in parts
    Pair("softmax in three parts", HEADS, attention, in_three, False),
    Pair(
        "parts in another order",
        HEADS,
        lambda q, k, v: in_three(q, k, v),
        lambda q, k, v: attention(q, k.flip(1), v.flip(1)),
        False,
    ),
    Pair(
        "softmax of a joined row",
        "6x5 6x7",
        lambda x, y: torch.cat([x, y], 1).softmax(-1)[:, :5],
        lambda x, y: torch.exp(x - torch.logaddexp(lse(x), lse(y))),
        False,
    ),
    Pair(
        "temperature before and after",
        ONE,
        lambda x: (x / 0.5).softmax(-1),
        lambda x: (p := x.softmax(-1)) ** 2 / (p * p).sum(-1, keepdim=True),
        False,
    ),
    Pair(
        "softmax, moved",
        TWO,
        lambda x, y: (x + y.mean(-1, keepdim=True)).softmax(-1),
        lambda x, y: x.softmax(-1) + 0.0 * y,
        False,
    ),
    Pair(
        "entropy",
        ONE,
        lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
        lambda x: lse(x)[:, 0] - (x.softmax(-1) * x).sum(-1),
        False,
    ),
    Pair(
        "divergence",
        TWO,
        lambda x, t: (t.softmax(-1) * (t.log_softmax(-1) - x.log_softmax(-1))).sum(-1),
        lambda x, t: (t.softmax(-1) * (t - x)).sum(-1) - lse(t)[:, 0] + lse(x)[:, 0],
        False,
    ),
    Pair(
        "smoothed targets",
        TWO,
        lambda x, t: -(x.log_softmax(-1) * (0.9 * t + 0.1 / 12)).sum(-1),
        lambda x, t: (
            0.9 * (lse(x)[:, 0] * t.sum(-1) - (x * t).sum(-1)) + 0.1 * (lse(x)[:, 0] - x.mean(-1))
        ),
        False,
    ),
    # maxima, magnitudes, limits
    Pair(
        "limits in another order",
        ONE,
        lambda x: x.clamp(-0.5, 0.5),
        lambda x: x.clamp(max=0.5).clamp(min=-0.5),
    ),
    Pair(
        "hinge of both",
        ONE,
        lambda x: F.relu(x - 1.0) + F.relu(-x - 1.0),
        lambda x: F.relu(x.abs() - 1.0),
        False,
    ),
    Pair(
        "huber by limits",
        ONE,
        lambda x: F.huber_loss(x, torch.zeros(6, 12), reduction="none"),
        lambda x: (y := x.abs().clamp(max=1.0)) * (x.abs() - 0.5 * y),
        False,
    ),
    Pair(
        "leaky as two maxima",
        ONE,
        lambda x: F.leaky_relu(x, 0.1),
        lambda x: 0.9 * F.relu(x) + 0.1 * x,
        False,
    ),
    Pair("ramp", ONE, F.hardsigmoid, lambda x: (x / 6.0 + 0.5).clamp(0.0, 1.0), False),
    Pair("range", ONE, lambda x: x.amax(-1) - x.amin(-1), lambda x: x.amax(-1) + (-x).amax(-1)),
    Pair(
        "maximum of a part and the rest",
        ONE,
        lambda x: x.amax(-1),
        lambda x: torch.maximum(x[:, :5].amax(-1), x[:, 5:].amax(-1)),
    ),
    Pair(
        "median of three by limits",
        THREE,
        lambda a, b, c: torch.maximum(torch.minimum(a, b), torch.minimum(torch.maximum(a, b), c)),
        lambda a, b, c: torch.minimum(torch.maximum(a, b), torch.maximum(torch.minimum(a, b), c)),
    ),
    # roots
    Pair(
        "norm of a scaled row",
        ONE,
        lambda x: (3.0 * x).norm(dim=-1),
        lambda x: 3.0 * x.norm(dim=-1),
        False,
    ),
    Pair(
        "root of a quotient",
        TWO,
        lambda x, y: torch.sqrt((x * x + 1) / (y * y + 1)),
        lambda x, y: torch.sqrt(x * x + 1) * torch.rsqrt(y * y + 1),
        False,
    ),
    Pair(
        "geometric mean",
        TWO,
        lambda x, y: torch.sqrt(torch.exp(x) * torch.exp(y)),
        lambda x, y: torch.exp(0.5 * (x + y)),
        False,
    ),
    Pair(
        "cosine",
        TWO,
        lambda x, y: F.cosine_similarity(x, y, -1, 0.0),
        lambda x, y: (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1)),
        False,
    ),
    Pair(
        "distances of unit rows",
        TWO,
        lambda x, y: ((F.normalize(x, dim=-1, eps=0.0) - F.normalize(y, dim=-1, eps=0.0)) ** 2).sum(
            -1
        ),
        lambda x, y: 2.0 - 2.0 * (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1)),
        False,
    ),
    Pair(
        "all distances",
        "5x4 7x4",
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
        lambda x, y: (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None] - 2.0 * x @ y.t(),
        False,
    ),
    # parts at unusual places
    Pair(
        "product in odd parts",
        "5x13 13x7",
        lambda x, w: x @ w,
        lambda x, w: x[:, :3] @ w[:3] + x[:, 3:4] @ w[3:4] + x[:, 4:] @ w[4:],
        False,
    ),
    Pair(
        "columns in odd parts",
        "5x13 13x7",
        lambda x, w: x @ w,
        lambda x, w: torch.cat([x @ w[:, :2], x @ w[:, 2:5], x @ w[:, 5:]], 1),
        False,
    ),
    Pair(
        "mean of odd parts",
        "5x13",
        lambda x: x.mean(-1),
        lambda x: (5.0 * x[:, :5].mean(-1) + 8.0 * x[:, 5:].mean(-1)) / 13.0,
        False,
    ),
    Pair(
        "differences of neighbours",
        "5x13",
        lambda x: x[:, 1:] - x[:, :-1],
        lambda x: (x[:, :-1] - x[:, 1:]) * -1.0,
    ),
    Pair(
        "rotated by a join",
        "5x13",
        lambda x: torch.roll(x, 4, 1),
        lambda x: torch.cat([x[:, 9:], x[:, :9]], 1),
    ),
    Pair(
        "padded and cut",
        "5x13",
        lambda x: F.pad(x, (2, 3))[:, 1:14],
        lambda x: F.pad(x, (1, 0))[:, :13],
    ),
    Pair(
        "every second of pairs",
        "5x12",
        lambda x: x.view(5, 6, 2)[..., 0] * x.view(5, 6, 2)[..., 1],
        lambda x: x[:, ::2] * x[:, 1::2],
    ),
    # masks
    Pair(
        "causal by rows",
        HEADS,
        lambda q, k, v: scores(q, k).masked_fill(~causal(6), -INF).softmax(-1) @ v,
        lambda q, k, v: scores(q, k).masked_fill(~rows_below(6), -INF).softmax(-1) @ v,
        False,
    ),
    Pair(
        "causal by weights",
        HEADS,
        lambda q, k, v: scores(q, k).masked_fill(~causal(6), -INF).softmax(-1) @ v,
        lambda q, k, v: (e := torch.exp(scores(q, k)) * causal(6)) @ v / e.sum(-1, keepdim=True),
        False,
    ),
    Pair(
        "masked mean",
        "6x12 6x12:b",
        lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=1),
        lambda x, m: torch.where(m, x, 0.0).sum(-1) / m.float().sum(-1).clamp(min=1.0),
        False,
    ),
    Pair(
        "not the other mask",
        "6x12 6x12:b",
        lambda x, m: x.masked_fill(m, 0.0),
        lambda x, m: x * ~m,
        False,
    ),
    Pair(
        "two masks as one",
        "6x12 6x12:b 6x12:b",
        lambda x, a, b: torch.where(a, torch.where(b, x, 0.0), 0.0),
        lambda x, a, b: torch.where(a & b, x, 0.0),
    ),
    # rows by index
    Pair(
        "one of several by sums",
        "6x12 6:i64",
        lambda x, i: x.gather(1, i[:, None])[:, 0],
        lambda x, i: (x * F.one_hot(i, 12)).sum(-1),
        False,
    ),
    Pair(
        "product after a lookup",
        "12x8 8x5 6:i64",
        lambda t, w, i: t[i] @ w,
        lambda t, w, i: (t @ w)[i],
        False,
    ),
    Pair(
        "norm after a lookup",
        "12x8 8 6:i64",
        lambda t, w, i: rms(t[i], w),
        lambda t, w, i: rms(t, w)[i],
    ),
    # norms
    Pair(
        "norm of a scaled input",
        "6x12 12",
        lambda x, w: rms(x, w),
        lambda x, w: rms(4.0 * x, w, 1.6e-5),
        False,
    ),
    Pair(
        "gain in the weight",
        "6x12 12 12x5",
        lambda x, g, w: rms(x, g) @ w,
        lambda x, g, w: (x @ (g[:, None] * w)) * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
        False,
    ),
    Pair("layer norm by moments", ONE, lambda x: F.layer_norm(x, (12,)), moments, False),
    Pair(
        "group norm as layer norm",
        "2x6x4",
        lambda x: F.group_norm(x, 1),
        lambda x: F.layer_norm(x.flatten(1), (24,)).view(2, 6, 4),
        False,
    ),
    Pair(
        "bias that a norm takes out",
        "6x12 6x1",
        lambda x, c: F.layer_norm(x + c, (12,)),
        lambda x, c: F.layer_norm(x, (12,)) + 0.0 * c,
        False,
    ),
    Pair(
        "centred twice",
        ONE,
        lambda x: (y := x - x.mean(-1, keepdim=True)) - y.mean(-1, keepdim=True),
        lambda x: x - x.mean(-1, keepdim=True),
        False,
    ),
    # roundings and steps
    Pair(
        "cast down at the end",
        "6x64:f16 64:f16",
        lambda x, w: rms(x.float(), 1.0).half() * w,
        lambda x, w: (rms(x.float(), 1.0) * w.float()).half(),
    ),
    Pair(
        "moving average",
        TWO,
        lambda x, y: torch.lerp(x, y, 0.1),
        lambda x, y: 0.9 * x + 0.1 * y,
        False,
    ),
    Pair(
        "step of Adam",
        THREE,
        lambda p, m, v: p - 0.01 * (m / 0.1) / (torch.sqrt(v * v / 0.001) + 1e-8),
        lambda p, m, v: p - 0.1 * m / (torch.sqrt(v * v * 1000.0) + 1e-8),
        False,
    ),
]
