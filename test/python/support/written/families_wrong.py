"""Programs of many kinds that differ in one constant, sign, place, step or mask."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.families_right import (
    HEADS,
    INF,
    ONE,
    THREE,
    TWO,
    attention,
    causal,
    lse,
    merged,
    moments,
    part,
    rms,
    rows_below,
    scores,
)
from written.pairs import Pair


def in_two(q, k, v, *, cut=3, twice=0, weigh=merged):
    first, second = (
        part(q, k[:, :cut], v[:, :cut]),
        part(q, k[:, cut - twice :], v[:, cut - twice :]),
    )
    _, total, out = weigh(first, second)
    return out / total


def unweighed_total(a, b):
    (m1, l1, o1), (m2, l2, o2) = a, b
    m = torch.maximum(m1, m2)
    return m, l1 + l2, o1 * torch.exp(m1 - m) + o2 * torch.exp(m2 - m)


def exchanged(a, b):
    (m1, l1, o1), (m2, l2, o2) = a, b
    m = torch.maximum(m1, m2)
    w1, w2 = torch.exp(m2 - m), torch.exp(m1 - m)
    return m, l1 * w1 + l2 * w2, o1 * w1 + o2 * w2


FAMILIES_WRONG: list[Pair] = [
    # constants
    Pair("a third as 0.3333333", ONE, lambda x: x / 3.0, lambda x: x * 0.3333333, False),
    Pair(
        "another root of the size",
        "2x6x8 2x6x8",
        scores,
        lambda q, k: (q * 8**-0.25) @ (k * 8**-0.5).transpose(-1, -2),
        False,
    ),
    Pair("powers of two as of e", ONE, lambda x: torch.exp2(x), torch.exp, False),
    Pair(
        "log2 of e for ln 2",
        ONE,
        torch.sigmoid,
        lambda x: 1.0 / (1.0 + torch.exp2(-x * math.log(2.0))),
        False,
    ),
    Pair(
        "1.702 for 1.7",
        ONE,
        lambda x: x * torch.sigmoid(1.702 * x),
        lambda x: x * torch.sigmoid(1.7 * x),
        False,
    ),
    Pair(
        "2/pi without its root",
        ONE,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1.0 + torch.tanh(2 / math.pi * (x + 0.044715 * x**3))),
        False,
    ),
    Pair("gelu by tanh for gelu", ONE, F.gelu, lambda x: F.gelu(x, approximate="tanh"), False),
    # activations
    Pair("tanh by another sigmoid", ONE, torch.tanh, lambda x: 2.0 * torch.sigmoid(x) - 1.0, False),
    Pair("silu of half", ONE, F.silu, lambda x: x * torch.sigmoid(0.5 * x), False),
    Pair(
        "softplus without its one", ONE, F.softplus, lambda x: torch.log(torch.exp(x) + 0.5), False
    ),
    Pair(
        "softplus of twice",
        ONE,
        lambda x: F.softplus(x, beta=2.0),
        lambda x: F.softplus(2.0 * x),
        False,
    ),
    Pair("log sigmoid with another sign", ONE, F.logsigmoid, lambda x: x - F.softplus(-x), False),
    Pair(
        "mish without softplus",
        ONE,
        F.mish,
        lambda x: x * torch.tanh(torch.log(1.0 + torch.exp(-x))),
        False,
    ),
    Pair(
        "elu with another slope", ONE, F.elu, lambda x: torch.where(x > 0, x, torch.exp(x)), False
    ),
    Pair(
        "loss of the other class",
        TWO,
        lambda x, t: F.softplus(x) - x * t,
        lambda x, t: F.softplus(-x) - x * t,
        False,
    ),
    Pair(
        "gate of the other one", TWO, lambda x, y: F.silu(x) * y, lambda x, y: F.silu(y) * x, False
    ),
    # softmax
    Pair("parts that overlap", HEADS, attention, lambda q, k, v: in_two(q, k, v, twice=1), False),
    Pair(
        "total without weights",
        HEADS,
        attention,
        lambda q, k, v: in_two(q, k, v, weigh=unweighed_total),
        False,
    ),
    Pair(
        "weights exchanged",
        HEADS,
        attention,
        lambda q, k, v: in_two(q, k, v, weigh=exchanged),
        False,
    ),
    Pair(
        "softmax over the other axis", "6x6", lambda x: x.softmax(-1), lambda x: x.softmax(0), False
    ),
    Pair(
        "temperature after the softmax",
        ONE,
        lambda x: (x / 2.0).softmax(-1),
        lambda x: x.softmax(-1) / 2.0,
        False,
    ),
    Pair(
        "temperature as a power",
        ONE,
        lambda x: (2.0 * x).softmax(-1),
        lambda x: x.softmax(-1) ** 2,
        False,
    ),
    Pair(
        "one more in the total",
        ONE,
        lambda x: x.softmax(-1),
        lambda x: torch.exp(x) / (1.0 + torch.exp(x).sum(-1, keepdim=True)),
        False,
    ),
    Pair(
        "entropy without the sum",
        ONE,
        lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
        lambda x: lse(x)[:, 0] - x.mean(-1),
        False,
    ),
    Pair(
        "divergence the other way round",
        TWO,
        lambda x, t: (t.softmax(-1) * (t.log_softmax(-1) - x.log_softmax(-1))).sum(-1),
        lambda x, t: (x.softmax(-1) * (x.log_softmax(-1) - t.log_softmax(-1))).sum(-1),
        False,
    ),
    Pair(
        "smoothing over one class less",
        TWO,
        lambda x, t: -(x.log_softmax(-1) * (0.9 * t + 0.1 / 12)).sum(-1),
        lambda x, t: -(x.log_softmax(-1) * (0.9 * t + 0.1 / 11)).sum(-1),
        False,
    ),
    Pair(
        "logarithm of the mean",
        ONE,
        lambda x: torch.logsumexp(x, -1),
        lambda x: torch.log(torch.exp(x).mean(-1)),
        False,
    ),
    # maxima
    Pair("other limits", ONE, lambda x: x.clamp(-0.5, 0.5), lambda x: x.clamp(-0.5, 0.5001), False),
    Pair(
        "limits the wrong way round",
        ONE,
        lambda x: x.clamp(min=0.5).clamp(max=-0.5),
        lambda x: x.clamp(-0.5, 0.5),
        False,
    ),
    Pair(
        "hinge of one side",
        ONE,
        lambda x: F.relu(x.abs() - 1.0),
        lambda x: F.relu(x - 1.0) - F.relu(-x - 1.0),
        False,
    ),
    Pair(
        "huber without a half",
        ONE,
        lambda x: F.huber_loss(x, torch.zeros(6, 12), reduction="none"),
        lambda x: (y := x.abs().clamp(max=1.0)) * (x.abs() - y),
        False,
    ),
    Pair(
        "leaky with the other weight",
        ONE,
        lambda x: F.leaky_relu(x, 0.1),
        lambda x: 0.1 * F.relu(x) + 0.9 * x,
        False,
    ),
    Pair(
        "a maximum that misses a column",
        ONE,
        lambda x: x.amax(-1),
        lambda x: torch.maximum(x[:, :5].amax(-1), x[:, 6:].amax(-1)),
        False,
    ),
    Pair(
        "a sum of maxima",
        TWO,
        lambda x, y: (x + y).amax(-1),
        lambda x, y: x.amax(-1) + y.amax(-1),
        False,
    ),
    Pair(
        "minimum for median",
        THREE,
        lambda a, b, c: torch.maximum(torch.minimum(a, b), torch.minimum(torch.maximum(a, b), c)),
        lambda a, b, c: torch.maximum(torch.minimum(a, b), torch.minimum(a, c)),
        False,
    ),
    Pair(
        "magnitude of a sum", TWO, lambda x, y: (x + y).abs(), lambda x, y: x.abs() + y.abs(), False
    ),
    # roots
    Pair(
        "root of a sum",
        TWO,
        lambda x, y: torch.sqrt(x * x + y * y),
        lambda x, y: x.abs() + y.abs(),
        False,
    ),
    Pair("a square out of its root", ONE, lambda x: torch.sqrt(x * x), lambda x: x * 1.0, False),
    Pair(
        "norm without its root",
        ONE,
        lambda x: x / x.norm(dim=-1, keepdim=True),
        lambda x: x / (x * x).sum(-1, keepdim=True),
        False,
    ),
    Pair(
        "cosine with one norm",
        TWO,
        lambda x, y: (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1)),
        lambda x, y: (x * y).sum(-1) / x.norm(dim=-1),
        False,
    ),
    Pair(
        "cosine with the other eps",
        TWO,
        lambda x, y: (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1) + 1e-2),
        lambda x, y: (x * y).sum(-1) / ((x.norm(dim=-1) + 1e-2) * y.norm(dim=-1)),
        False,
    ),
    Pair(
        "distances without a factor",
        "5x4 7x4",
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
        lambda x, y: (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None] - x @ y.t(),
        False,
    ),
    Pair(
        "sum of roots of a product",
        TWO,
        lambda x, y: torch.sqrt((x * y).abs()),
        lambda x, y: torch.sqrt((x * y).abs() + 1e-6),
        False,
    ),
    # parts
    Pair(
        "a row of the weight left out",
        "5x13 13x7",
        lambda x, w: x @ w,
        lambda x, w: x[:, :3] @ w[:3] + x[:, 4:] @ w[4:],
        False,
    ),
    Pair(
        "a row of the weight twice",
        "5x13 13x7",
        lambda x, w: x @ w,
        lambda x, w: x[:, :4] @ w[:4] + x[:, 3:] @ w[3:],
        False,
    ),
    Pair(
        "mean of means",
        "5x13",
        lambda x: x.mean(-1),
        lambda x: 0.5 * (x[:, :5].mean(-1) + x[:, 5:].mean(-1)),
        False,
    ),
    Pair(
        "rotated the other way",
        "5x13",
        lambda x: torch.roll(x, 4, 1),
        lambda x: torch.roll(x, -4, 1),
        False,
    ),
    Pair(
        "padded by one less",
        "5x13",
        lambda x: F.pad(x, (2, 3))[:, 1:14],
        lambda x: F.pad(x, (2, 3))[:, 2:15],
        False,
    ),
    Pair(
        "halves for pairs",
        "5x12",
        lambda x: x[:, ::2] * x[:, 1::2],
        lambda x: x[:, :6] * x[:, 6:],
        False,
    ),
    # masks
    Pair(
        "without the diagonal",
        HEADS,
        lambda q, k, v: torch.exp(scores(q, k)).masked_fill(~causal(6), 0.0) @ v,
        lambda q, k, v: torch.exp(scores(q, k)).masked_fill(~causal(6).tril(-1), 0.0) @ v,
        False,
    ),
    Pair(
        "the other triangle",
        HEADS,
        lambda q, k, v: scores(q, k).masked_fill(~causal(6), -INF).softmax(-1) @ v,
        lambda q, k, v: scores(q, k).masked_fill(~rows_below(6).t(), -INF).softmax(-1) @ v,
        False,
    ),
    Pair(
        "masked by zero scores",
        HEADS,
        lambda q, k, v: scores(q, k).masked_fill(~causal(6), -INF).softmax(-1) @ v,
        lambda q, k, v: (scores(q, k) * causal(6)).softmax(-1) @ v,
        False,
    ),
    Pair(
        "mean of what is masked too",
        "6x12 6x12:b",
        lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=1),
        lambda x, m: (x * m).mean(-1),
        False,
    ),
    Pair(
        "or for and",
        "6x12 6x12:b 6x12:b",
        lambda x, a, b: torch.where(a & b, x, 0.0),
        lambda x, a, b: torch.where(a | b, x, 0.0),
        False,
    ),
    Pair(
        "a quotient that a mask keeps from zero",
        "6x12 6x12",
        lambda x, y: torch.where(y != 0, x / y, 0.0),
        lambda x, y: (y != 0) * (x / y),
        False,
    ),
    Pair(
        "one mask of two",
        "6x12 6x12:b 6x12:b",
        lambda x, a, b: torch.where(a, torch.where(b, x, 0.0), 0.0),
        lambda x, a, b: torch.where(b, x, 0.0),
        False,
    ),
    # rows
    Pair(
        "the next class",
        "6x12 6:i64",
        lambda x, i: x.gather(1, i[:, None])[:, 0],
        lambda x, i: (x * F.one_hot(i + 1, 12)).sum(-1),
        False,
    ),
    Pair(
        "rows of the other table",
        "12x8 12x8 6:i64",
        lambda t, u, i: t[i] + 2.0 * u[i],
        lambda t, u, i: u[i] + 2.0 * t[i],
        False,
    ),
    # norms
    Pair(
        "eps outside of the root",
        "6x12 12",
        lambda x, w: rms(x, w, 1e-2),
        lambda x, w: x / (torch.sqrt((x * x).mean(-1, keepdim=True)) + 1e-2) * w,
        False,
    ),
    Pair(
        "eps of what is not scaled",
        "6x12 12",
        lambda x, w: rms(x, w, 1e-3),
        lambda x, w: rms(4.0 * x, w, 1e-3),
        False,
    ),
    Pair(
        "variance of n less one",
        ONE,
        lambda x: F.layer_norm(x, (12,)),
        lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5),
        False,
    ),
    Pair(
        "moments without the mean",
        ONE,
        moments,
        lambda x: (
            (x - x.mean(-1, keepdim=True)) * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        ),
        False,
    ),
    Pair(
        "one plus the gain", "6x12 12", lambda x, w: rms(x, w), lambda x, w: rms(x, 1.0 + w), False
    ),
    # roundings and steps
    Pair("a cast that is written", "6x64", lambda x: x.half().float() * 3.0, lambda x: x * 3.0),
    Pair("a residual of a cast", "6x64", lambda x: x - x.bfloat16().float(), lambda x: x * 0.0),
    Pair(
        "rounded before the scale",
        "6x64",
        lambda x: torch.round(x * 8.0) / 8.0,
        lambda x: torch.round(x) * 1.0,
        False,
    ),
    Pair(
        "moving average, turned",
        TWO,
        lambda x, y: 0.9 * x + 0.1 * y,
        lambda x, y: 0.1 * x + 0.9 * y,
        False,
    ),
    Pair(
        "eps inside of Adam's root",
        THREE,
        lambda p, m, v: p - 0.01 * m / (torch.sqrt(v * v) + 1e-3),
        lambda p, m, v: p - 0.01 * m / torch.sqrt(v * v + 1e-3),
        False,
    ),
]
