"""Moments and distances in forms that keep their digits for any mean of a row."""

from __future__ import annotations

import torch

from written.pairs import Pair

ROWS, TWO, UNLIKE = "32x40", "32x40 32x40", "12x20 9x20"


def variance(x: torch.Tensor) -> torch.Tensor:
    return x.var(-1, correction=0)


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


def group_variance(x: torch.Tensor) -> torch.Tensor:
    return variance(x.reshape(32, 4, 10))


def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a[:, None] - b[None]).square().sum(-1)


def joined(x: torch.Tensor) -> torch.Tensor:
    """Variances of two parts of a row, and the difference of their means."""
    a, b = x[:, :15], x[:, 15:]
    squares = centred(a).square().sum(-1) + centred(b).square().sum(-1)
    return (squares + (a.mean(-1) - b.mean(-1)).square() * (15.0 * 25.0 / 40.0)) / 40.0


def corrected(x: torch.Tensor) -> torch.Tensor:
    """In two passes, minus the error of the rounded mean."""
    c = centred(x)
    return c.square().mean(-1) - c.mean(-1).square()


MOMENTS_RIGHT: list[Pair] = [
    Pair("a variance in two passes", ROWS, variance, lambda x: centred(x).square().mean(-1)),
    Pair("a variance that is corrected", ROWS, variance, corrected),
    Pair("a variance of two parts", ROWS, variance, joined),
    Pair(
        "a variance by a product with itself",
        ROWS,
        variance,
        lambda x: (centred(x)[:, None] @ centred(x)[:, :, None])[:, 0, 0] / 40.0,
    ),
    Pair(
        "a variance of one less in two passes",
        ROWS,
        lambda x: x.var(-1),
        lambda x: centred(x).square().sum(-1) / 39.0,
    ),
    Pair(
        "variances of groups in two passes",
        ROWS,
        group_variance,
        lambda x: torch.stack([variance(x[:, i : i + 10]) for i in (0, 10, 20, 30)], 1),
    ),
    Pair(
        "variances of all rows by their transpose",
        ROWS,
        lambda x: x.var(-1, correction=0)[None],
        lambda x: x.mT.var(0, correction=0)[None],
    ),
    Pair(
        "a sum by a product with ones",
        "32x256",
        lambda x: x.sum(-1),
        lambda x: (x @ torch.ones(256, 1))[:, 0],
    ),
    Pair(
        "a mean by a product",
        "32x256",
        lambda x: x.mean(-1, keepdim=True),
        lambda x: x @ torch.full((256, 1), 1.0 / 256.0),
    ),
    Pair(
        "a covariance in two passes",
        TWO,
        lambda x, y: (centred(x) * centred(y)).mean(-1),
        lambda x, y: (centred(y) * centred(x)).sum(-1) * (1.0 / 40.0),
    ),
    Pair(
        "a mean of squares of differences",
        TWO,
        lambda x, y: (x - y).square().mean(-1),
        lambda x, y: ((y - x) * (y - x)).sum(-1) * (1.0 / 40.0),
    ),
    Pair(
        "distances one after the other",
        UNLIKE,
        distances,
        lambda a, b: torch.stack([(a - b[i]).square().sum(-1) for i in range(9)], 1),
    ),
    Pair(
        "distances of two parts",
        UNLIKE,
        distances,
        lambda a, b: distances(a[:, :8], b[:, :8]) + distances(a[:, 8:], b[:, 8:]),
    ),
    Pair(
        "a kernel of distances by halves",
        UNLIKE,
        lambda a, b: torch.exp(-distances(a, b) / 20.0),
        lambda a, b: torch.exp(-distances(b, a).mT * 0.05),
    ),
    Pair(
        "differences of all pairs of sums",
        UNLIKE,
        lambda a, b: (a[:, None] - b[None]).sum(-1),
        lambda a, b: a.sum(-1)[:, None] - b.sum(-1)[None],
    ),
]
