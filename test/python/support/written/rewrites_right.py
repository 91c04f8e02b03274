"""Ranks, places of the largest, rounded limits, odds and optimisers' steps, rewritten in usual
ways."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

Tensor = torch.Tensor
ROW, GATES, QUANTISED = "4x8", "6x5 6x4 4x5x3", "4x8 1"
LABELS = "6x4 6x4:b"


def first(x: Tensor, count: int) -> Tensor:
    """Ones at the places of the largest elements."""
    return torch.zeros_like(x).scatter(-1, x.topk(count, -1).indices, 1.0)


def scattered(x: Tensor, count: int) -> Tensor:
    """The largest elements at their places, and minus infinity elsewhere."""
    values, places = x.topk(count, -1)
    return torch.full_like(x, -math.inf).scatter(-1, places, values)


def of_largest(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """The expert with the largest score, found by argmax."""
    e = g.argmax(-1)
    return torch.einsum("td,tdf->tf", x, w[e]) * g.softmax(-1).gather(1, e[:, None])


def of_first(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """The expert with the first of the sorted probabilities."""
    share, e = g.softmax(-1).topk(1, -1)
    return torch.einsum("td,tdf->tf", x, w[e[:, 0]]) * share


def of_most(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """The largest probability, times its expert."""
    share, e = g.softmax(-1).max(-1)
    return share[:, None] * torch.einsum("td,tdf->tf", x, w[e])


def by_one_hot(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """All experts, only one of which has a share."""
    share = g.softmax(-1)
    return torch.einsum("te,td,edf->tf", F.one_hot(share.argmax(-1), 4) * share, x, w)


def focal(x: Tensor, m: Tensor) -> Tensor:
    p = x.sigmoid()
    loss = F.binary_cross_entropy_with_logits(x, m.float(), reduction="none")
    return 0.25 * (1 - torch.where(m, p, 1 - p)) ** 2 * loss


def focal_by_signs(x: Tensor, m: Tensor) -> Tensor:
    z = torch.where(m, x, -x)
    return 0.25 * (-z).sigmoid() ** 2 * F.softplus(-z)


def normed(x: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=eps)


REWRITES_RIGHT = [
    Pair("scattered into minus infinity", ROW, lambda x: scattered(x, 3).softmax(-1),
        lambda x: torch.where(first(x, 3) > 0, x, -math.inf).softmax(-1)),
    Pair("filled where nothing is", ROW, lambda x: scattered(x, 2).softmax(-1),
        lambda x: x.masked_fill(first(x, 2) == 0, -math.inf).softmax(-1)),
    Pair("the largest expert", GATES, of_largest, of_first, False),
    Pair("the largest at its place", ROW, lambda x: F.one_hot(x.argmax(-1), 8).float() * x,
        lambda x: torch.zeros_like(x).scatter(1, x.topk(1).indices, x.topk(1).values)),
    Pair("rolled before it is sorted", ROW, lambda x: x.sort(-1).values,
        lambda x: x.roll(3, -1).sort(-1).values),
    Pair("rolled before the largest", ROW, lambda x: x.topk(3).values,
        lambda x: x.roll(3, -1).topk(3).values),
    Pair("rounded, then limited", ROW, lambda x: x.round().clamp(-128, 127),
        lambda x: x.clamp(-128, 127).round()),
    Pair("quantised", QUANTISED, lambda x, s: (x / s).round().clamp(-8, 7) * s,
        lambda x, s: (x / s).clamp(-8, 7).round() * s),
    Pair("rounded down, then limited", ROW, lambda x: x.floor().clamp(0, 15),
        lambda x: x.clamp(0, 15).floor()),
    Pair("rounded up, then limited", ROW, lambda x: x.ceil().clamp(-3, 4),
        lambda x: x.clamp(-3, 4).ceil()),
    Pair("limited by fractions", ROW, lambda x: x.clamp(-2.5, 3.5).round(),
        lambda x: x.round().clamp(-2, 4)),
    Pair("logarithm of odds", ROW, lambda x: torch.log(x / (1 - x)),
        lambda x: torch.log(x) - torch.log1p(-x)),
    Pair("logit", ROW, torch.logit, lambda x: torch.log(x) - torch.log1p(-x)),
    Pair("a focal loss", LABELS, focal, focal_by_signs),
    Pair("normed twice", ROW, lambda x: normed(normed(x, 0.0), 0.0), lambda x: normed(x, 0.0)),
    Pair("the rest of a sigmoid", ROW, lambda x: 1 - x.sigmoid(), lambda x: (-x).sigmoid()),
    Pair("shares of a mask", ROW,
        lambda x: first(x, 2) * x.softmax(-1) / (first(x, 2) * x.softmax(-1)).sum(-1, True),
        lambda x: torch.where(first(x, 2) > 0, x, -math.inf).softmax(-1)),
    Pair("one expert among all", GATES, of_most, by_one_hot),
    Pair("clipped by its norm", "16", lambda g: g * torch.clamp(1 / (g.norm() + 1e-6), max=1),
        lambda g: g / torch.clamp(g.norm() + 1e-6, min=1)),
    Pair("two blocks of keys", "6x8 8x5", lambda s, v: s.softmax(-1) @ v,
        lambda s, v: (lambda a, b: s[:, :4].softmax(-1) @ v[:4] * torch.sigmoid(a - b)
            + s[:, 4:].softmax(-1) @ v[4:] * torch.sigmoid(b - a))(
            s[:, :4].logsumexp(-1, True), s[:, 4:].logsumexp(-1, True)), False),
]  # fmt: skip
