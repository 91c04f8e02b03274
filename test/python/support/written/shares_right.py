"""Shares of the largest elements, filters by probabilities, sorted rows and angles, written in two
ways each."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

ROW, ANGLE, TWO = "4x8", "6x4", "6x4 6x4"
Tensor = torch.Tensor


def share(x: Tensor) -> Tensor:
    return x / x.sum(-1, keepdim=True)


def first(x: Tensor, count: int, largest: bool = True) -> Tensor:
    """Ones at the places of the largest elements."""
    return torch.zeros_like(x).scatter(1, x.topk(count, -1, largest=largest).indices, 1.0)


def scattered(x: Tensor, count: int) -> Tensor:
    """The largest elements at their places."""
    values, places = x.topk(count, -1)
    return torch.zeros_like(x).scatter(1, places, values)


def probable(x: Tensor, least: float) -> Tensor:
    """The scores whose probabilities are at least this share of the largest one."""
    p = x.softmax(-1)
    return torch.where(p >= least * p.amax(-1, keepdim=True), x, -math.inf)


def near_the_largest(x: Tensor, distance: float) -> Tensor:
    return torch.where(x - x.amax(-1, keepdim=True) >= distance, x, -math.inf)


def likely(p: Tensor) -> Tensor:
    """The probabilities that are at least a tenth of the largest one."""
    return torch.where(p >= 0.1 * p.amax(-1, keepdim=True), p, 0)


def turned(x: Tensor, t: Tensor) -> Tensor:
    a, b = x[:, 0], x[:, 1]
    return torch.stack([a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()], -1)


SHARES_RIGHT = [
    Pair(
        "shares of the first ranks", ROW, lambda x: x.softmax(-1) * first(x, 3),
        lambda x: scattered(x.softmax(-1), 3),
    ),
    Pair(
        "masked scores of the first ranks", ROW,
        lambda x: torch.where(first(x, 2) > 0, x, -math.inf).softmax(-1),
        lambda x: share(torch.where(first(x, 2) > 0, x.softmax(-1), 0)),
    ),
    Pair("places of the first ranks", ROW, lambda x: first(x, 2),
        lambda x: first(x.softmax(-1), 2)),
    Pair(
        "the largest of a row", ROW, lambda x: first(x, 1),
        lambda x: F.one_hot(x.argmax(-1), 8).float(),
    ),
    Pair(
        "sum of the first ranks", ROW, lambda x: x.topk(3, -1).values.sum(-1),
        lambda x: (x * first(x, 3)).sum(-1),
    ),
    Pair(
        "a filter by probabilities", ROW, lambda x: probable(x, 0.2).softmax(-1),
        lambda x: near_the_largest(x, math.log(0.2)).softmax(-1),
    ),
    Pair(
        "filtered probabilities", ROW, lambda x: probable(x, 0.1).softmax(-1),
        lambda x: share(likely(x.softmax(-1))),
    ),
    Pair(
        "shares of shares", ROW, lambda x: share(x.sigmoid() / x.exp().sum(-1, keepdim=True)),
        lambda x: share(x.sigmoid()),
    ),
    Pair(
        "sorted from the other end", ROW, lambda x: x.sort(-1, descending=True).values,
        lambda x: x.flip(-1).sort(-1).values.flip(-1),
    ),
    Pair(
        "sorted after a flip", ROW, lambda x: x.sort(-1).values,
        lambda x: x.flip(-1).sort(-1).values,
    ),
    Pair(
        "compared exponentials", "4x8 4x8", lambda x, y: (x.exp() > 3 * y.exp()).float(),
        lambda x, y: (x > y + math.log(3)).float(), False,
    ),
    Pair("twice an angle", ANGLE, lambda x: (2 * x).sin(), lambda x: 2 * x.sin() * x.cos()),
    Pair("cosine of twice an angle", ANGLE, lambda x: (2 * x).cos(),
        lambda x: 2 * x.cos() ** 2 - 1),
    Pair("half an angle", ANGLE, torch.cos, lambda x: 1 - 2 * (x / 2).sin() ** 2),
    Pair("three times an angle", ANGLE, lambda x: (3 * x).sin(),
        lambda x: 3 * x.sin() - 4 * x.sin() ** 3),
    Pair(
        "a sum of angles", TWO, lambda x, y: (x + y).sin(),
        lambda x, y: x.sin() * y.cos() + x.cos() * y.sin(),
    ),
    Pair(
        "a product of cosines", TWO, lambda x, y: 2 * x.cos() * y.cos(),
        lambda x, y: (x - y).cos() + (x + y).cos(),
    ),
    Pair(
        "relative positions", "6x2 6x2 1 1",
        lambda q, k, s, t: (turned(q, s) * turned(k, t)).sum(-1),
        lambda q, k, s, t: (turned(q, s - t) * k).sum(-1),
    ),
    Pair(
        "turned twice", "6x2 1", lambda x, t: turned(turned(x, t), t), lambda x,
        t: turned(x, 2 * t),
    ),
]  # fmt: skip
