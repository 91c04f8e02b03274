"""Losses that are written with weights for each class, and ends of an order: pairs that are the
same if each label names a class, and others that are not.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

ROWS, CLASSES = "6x12", "6x12 6:i64"
Tensor = torch.Tensor


def one_hot(x: Tensor, t: Tensor) -> Tensor:
    return F.one_hot(t, x.shape[-1]).to(x.dtype)


def smooth(x: Tensor, t: Tensor) -> Tensor:
    return F.cross_entropy(x, t, label_smoothing=0.1)


def weighed(x: Tensor, weights: Tensor) -> Tensor:
    return -(weights * x.log_softmax(-1)).sum(-1).mean()


def scattered(x: Tensor, t: Tensor, picked: float, other: float) -> Tensor:
    return torch.full_like(x, other).scatter(1, t[:, None], picked)


def without(x: Tensor, t: Tensor, left_out: int) -> Tensor:
    kept = t != left_out
    losses = -x.log_softmax(-1).gather(1, t[:, None])[:, 0]
    return (losses * kept).sum() / kept.sum()


LABELS_RIGHT = [
    Pair(
        "smoothed labels as weights", CLASSES, smooth,
        lambda x, t: weighed(x, one_hot(x, t) * 0.9 + 0.1 / 12),
    ),
    Pair(
        "smoothed labels, scattered", CLASSES, smooth,
        lambda x, t: weighed(x, scattered(x, t, 0.9 + 0.1 / 12, 0.1 / 12)),
    ),
    Pair(
        "smoothed labels, chosen", CLASSES, smooth,
        lambda x, t: weighed(x, torch.where(one_hot(x, t) > 0, 0.9 + 0.1 / 12, 0.1 / 12)),
    ),
    Pair(
        "labels as weights, all at once", CLASSES, F.cross_entropy,
        lambda x, t: -(one_hot(x, t) * x.log_softmax(-1)).sum() / 6,
    ),
    Pair(
        "labels as shares", CLASSES, lambda x, t: F.cross_entropy(x, one_hot(x, t)),
        F.cross_entropy,
    ),
    Pair(
        "the first class left out", CLASSES, lambda x, t: F.cross_entropy(x, t, ignore_index=0),
        lambda x, t: without(x, t, 0),
    ),
    Pair("first of an order", ROWS, lambda x: x.topk(1).values, lambda x: x.amax(-1, keepdim=True)),
    Pair("place of the first", ROWS, lambda x: x.topk(1).indices[:, 0], lambda x: x.argmax(-1)),
    Pair(
        "least of an order", ROWS, lambda x: x.topk(1, largest=False).values,
        lambda x: x.amin(-1, keepdim=True), False,
    ),
]  # fmt: skip

LABELS_WRONG = [
    Pair(
        "smoothed labels without the picked share", CLASSES, smooth,
        lambda x, t: weighed(x, scattered(x, t, 0.9, 0.1 / 12)),
    ),
    Pair(
        "smoothed labels over the other classes", CLASSES, smooth,
        lambda x, t: weighed(x, scattered(x, t, 0.9, 0.1 / 11)),
    ),
    Pair(
        "smoothed labels, turned", CLASSES, smooth,
        lambda x, t: weighed(x, (1 - one_hot(x, t)) * 0.9 + 0.1 / 12),
    ),
    Pair(
        "labels as weights of a softmax", CLASSES, F.cross_entropy,
        lambda x, t: -(one_hot(x, t) * x.softmax(-1)).sum() / 6,
    ),
    Pair(
        "labels as weights, summed", CLASSES, F.cross_entropy,
        lambda x, t: -(one_hot(x, t) * x.log_softmax(-1)).sum(),
    ),
    Pair(
        "another class left out", CLASSES, lambda x, t: F.cross_entropy(x, t, ignore_index=0),
        lambda x, t: without(x, t, 1),
    ),
    Pair(
        "what is kept from zero by a product", "6x12 6x12",
        lambda x, y: torch.where(y != 0, x / y, 0.0), lambda x, y: (y != 0) * (x / y),
    ),
    Pair(
        "a logarithm that is picked by a product", CLASSES,
        lambda x, t: torch.where(torch.arange(12) == t[:, None], x.log(), 0.0).sum(-1),
        lambda x, t: ((torch.arange(12) == t[:, None]) * x.log()).sum(-1),
    ),
    Pair(
        "second of an order", ROWS, lambda x: x.topk(2).values[:, 1:],
        lambda x: x.amax(-1, keepdim=True),
    ),
    Pair(
        "first of another row", ROWS, lambda x: x.topk(1).values,
        lambda x: x.flip(0).amax(-1, keepdim=True),
    ),
    Pair(
        "first of another order", ROWS, lambda x: x.abs().topk(1).indices[:, 0],
        lambda x: x.argmax(-1),
    ),
    Pair(
        "last place of the largest", ROWS, lambda x: x.topk(1).indices[:, 0],
        lambda x: 11 - x.flip(-1).argmax(-1),
    ),
]  # fmt: skip
