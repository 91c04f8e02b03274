"""Programs at the sizes of models, each written in two ways that are the same: at small sizes
everything can be written out, but at these sizes the structure of the programs must show it.
"""

from __future__ import annotations

import functools
import itertools

import torch
import torch.nn.functional as F

from written.pairs import Pair

ROPE = "2x64x96 64x48 64x48"
TURNED = "2x64x96"
SIGNS = "64x96"
ATTENTION = "2x64x96 2x64x96 2x64x96"
LAYERS = "48x96 96x64"
_ANGLES = torch.arange(64.0)[:, None] * 10000.0 ** (-torch.arange(48.0) / 48.0)
COS, SIN = torch.cos(_ANGLES), torch.sin(_ANGLES)
WIDE_COS, WIDE_SIN = torch.cat([COS, COS], -1), torch.cat([SIN, SIN], -1)
SIGNED_SIN = torch.cat([-SIN, SIN], -1)


def rotate_half(x):
    h = x.shape[-1] // 2
    return torch.cat([-x[..., h:], x[..., :h]], -1)


def turned_whole(x, c, s):
    """The rotation of queries and keys in Transformers."""
    return x * torch.cat([c, c], -1) + rotate_half(x) * torch.cat([s, s], -1)


def turned_halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def turned_by_choice(x, c, s):
    """The half of each element, from positions."""
    first = torch.arange(96) < 48
    other = torch.where(first, -x.roll(48, -1), x.roll(48, -1))
    return x * torch.cat([c, c], -1) + other * torch.cat([s, s], -1)


def turned_scores(turned, x, c, s):
    y = turned(x, c, s)
    return (y @ y.mT * 96**-0.5).softmax(-1) @ x


def attention(q, k, v):
    return (q @ k.mT * 96**-0.5).softmax(-1) @ v


def linear_attention(features, q, k, v):
    f, g = features(q), features(k)
    return f @ (g.mT @ v) / (f @ g.sum(1)[..., None] + 1e-6)


def linear_attention_by_scores(features, q, k, v):
    scores = features(q) @ features(k).mT
    return scores @ v / (scores.sum(-1, keepdim=True) + 1e-6)


def chosen_features(x):
    return torch.where(x > 0, x + 1, torch.exp(x))


def parts_of_attention(q, k, v, cuts):
    """The results of parts of the keys, and the logarithms of the sums of their exponentials."""
    found = []
    for start, end in itertools.pairwise(cuts):
        a = q @ k[:, start:end].mT * 96**-0.5
        found.append((a.softmax(-1) @ v[:, start:end], a.logsumexp(-1, keepdim=True)))
    return tuple(zip(*found, strict=True))


def joined_by_a_maximum(*cuts):
    """Parts weighted by exponentials of the differences of their logarithms from the largest."""

    def joined(q, k, v):
        parts, logs = parts_of_attention(q, k, v, cuts)
        m = functools.reduce(torch.maximum, logs)
        weights = [torch.exp(log - m) for log in logs]
        return sum(o * w for o, w in zip(parts, weights, strict=True)) / sum(weights)

    return joined


def joined_by_a_sum(*cuts):
    """Parts weighted by exponentials of the differences of their logarithms from that of all."""

    def joined(q, k, v):
        parts, logs = parts_of_attention(q, k, v, cuts)
        total = torch.stack(logs).logsumexp(0)
        return sum(o * torch.exp(log - total) for o, log in zip(parts, logs, strict=True))

    return joined


def joined_in_a_stack(*cuts):
    def joined(q, k, v):
        parts, logs = (torch.stack(xs) for xs in parts_of_attention(q, k, v, cuts))
        w = torch.exp(logs - logs.amax(0))
        return (parts * w).sum(0) / w.sum(0)

    return joined


def softmax(x):
    p = torch.exp(x - x.amax(-1, keepdim=True))
    return p / p.sum(-1, keepdim=True)


LARGE_RIGHT: list[Pair] = [
    Pair("halves turned", ROPE, turned_whole, turned_halves),
    Pair("halves turned, the other way round", ROPE, turned_halves, turned_whole, False),
    Pair("halves chosen by positions", ROPE, turned_halves, turned_by_choice, False),
    Pair(
        "halves turned before scores",
        ROPE,
        lambda x, c, s: turned_scores(turned_whole, x, c, s),
        lambda x, c, s: turned_scores(turned_halves, x, c, s),
        False,
    ),
    Pair(
        "wide tables",
        TURNED,
        lambda x: x * WIDE_COS + rotate_half(x) * WIDE_SIN,
        lambda x: turned_halves(x, COS, SIN),
    ),
    Pair(
        "a table with signs",
        TURNED,
        lambda x: x * WIDE_COS + x.roll(48, -1) * SIGNED_SIN,
        lambda x: turned_halves(x, COS, SIN),
        False,
    ),
    # parts of softmax joined
    Pair("two parts by a maximum", ATTENTION, attention, joined_by_a_maximum(0, 24, 64)),
    Pair("four by a maximum", ATTENTION, attention, joined_by_a_maximum(0, 16, 32, 48, 64), False),
    Pair("three parts by a sum", ATTENTION, attention, joined_by_a_sum(0, 21, 47, 64), False),
    Pair("two parts in a stack", ATTENTION, attention, joined_in_a_stack(0, 24, 64), False),
    Pair(
        "three parts, by a sum or a maximum",
        ATTENTION,
        joined_by_a_maximum(0, 16, 48, 64),
        joined_by_a_sum(0, 32, 48, 64),
        False,
    ),
    # layers of softmax
    Pair(
        "two softmaxes",
        LAYERS,
        lambda x, w: ((x.softmax(-1)) @ w).softmax(-1),
        lambda x, w: softmax(softmax(x) @ w),
    ),
    Pair(
        "two layers of attention",
        ATTENTION,
        lambda q, k, v: attention(attention(q, k, v), k, v),
        lambda q, k, v: softmax(softmax(q @ k.mT * 96**-0.5) @ v @ k.mT * 96**-0.5) @ v,
        False,
    ),
    # signs
    Pair("a number by its sign", SIGNS, torch.abs, lambda x: x * torch.sign(x)),
    Pair("a sign by parts", SIGNS, lambda x: x * torch.sign(x), lambda x: F.relu(x) + F.relu(-x)),
    Pair(
        "shrunk by a sign",
        SIGNS,
        lambda x: F.softshrink(x, 0.5),
        lambda x: torch.sign(x) * F.relu(x.abs() - 0.5),
    ),
    Pair(
        "signs of two",
        "64x96 64x96",
        lambda x, y: torch.sign(x) * torch.sign(y) * x * y,
        lambda x, y: x.abs() * y.abs(),
        False,
    ),
    # one reading for a part, another for the rest
    Pair(
        "features by a choice",
        ATTENTION,
        lambda q, k, v: linear_attention(lambda x: F.elu(x) + 1, q, k, v),
        lambda q, k, v: linear_attention_by_scores(chosen_features, q, k, v),
    ),
]
