"""Moments and distances that lose their digits: means of squares minus squares of means, and
squares that are multiplied out. The digits are kept for rows about zero, and lost for rows far from
it.
"""

from __future__ import annotations

import torch

from written.moments_right import (
    ROWS,
    TWO,
    UNLIKE,
    centred,
    distances,
    group_variance,
    variance,
)
from written.pairs import Pair


def one_pass(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> torch.Tensor:
    mean = x.mean(dim, keepdim=keepdim)
    return x.square().mean(dim, keepdim=keepdim) - mean.square()


def multiplied_out(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.square().sum(-1)[:, None] + b.square().sum(-1)[None] - 2.0 * (a @ b.mT)


def half_shifted(x: torch.Tensor) -> torch.Tensor:
    """Minus half of the first element, which leaves half of the mean."""
    return one_pass(x - 0.5 * x[:, :1])


def by_products(x: torch.Tensor) -> torch.Tensor:
    """Sums as products with ones."""
    ones = torch.ones(x.shape[-1], 1)
    mean, squares = (x @ ones) / x.shape[-1], ((x * x) @ ones) / x.shape[-1]
    return (squares - mean * mean)[:, 0]


def by_halves(x: torch.Tensor) -> torch.Tensor:
    """Moments of two halves, joined."""
    first, second = x[:, :20], x[:, 20:]
    squares = (first.square().sum(-1) + second.square().sum(-1)) / 40.0
    return squares - ((first.sum(-1) + second.sum(-1)) / 40.0).square()


MOMENTS_WRONG: list[Pair] = [
    # one number for each row
    Pair("a variance in one pass", ROWS, variance, one_pass),
    Pair(
        "a variance in one pass that keeps its dimension",
        ROWS,
        lambda x: x.var(-1, correction=0, keepdim=True),
        lambda x: one_pass(x, keepdim=True),
    ),
    Pair(
        "a variance of one less in one pass",
        ROWS,
        lambda x: x.var(-1),
        lambda x: one_pass(x) * (40.0 / 39.0),
    ),
    Pair("a variance of what is shifted by half", ROWS, variance, half_shifted),
    Pair("a variance by products with ones", ROWS, variance, by_products),
    Pair("a variance of two halves in one pass", ROWS, variance, by_halves),
    Pair(
        "a sum of squares in one pass",
        ROWS,
        lambda x: centred(x).square().sum(-1),
        lambda x: x.square().sum(-1) - 40.0 * x.mean(-1).square(),
    ),
    Pair(
        "a mean beside a variance in one pass",
        ROWS,
        lambda x: (x.mean(-1), variance(x)),
        lambda x: (x.mean(-1), one_pass(x)),
    ),
    Pair(
        "variances of groups in one pass",
        ROWS,
        group_variance,
        lambda x: one_pass(x.reshape(32, 4, 10)),
    ),
    Pair(
        "variances of all rows beside each other",
        ROWS,
        lambda x: x.var(-1, correction=0)[None],
        lambda x: one_pass(x)[None],
    ),
    Pair(
        "a difference of means",
        ROWS,
        lambda x: (x - x[:, :1]).mean(-1),
        lambda x: x.mean(-1) - x[:, 0],
    ),
    Pair(
        "a variance of halves in one pass",
        "32x40:f16",
        lambda x: variance(x.float()),
        lambda x: one_pass(x.float()),
    ),
    Pair(
        "a variance of bf16 in one pass",
        "32x40:bf16",
        lambda x: variance(x.float()).bfloat16(),
        lambda x: one_pass(x.float()).bfloat16(),
    ),
    # two inputs with one mean
    Pair(
        "a covariance in one pass",
        TWO,
        lambda x, y: (centred(x) * centred(y)).mean(-1),
        lambda x, y: (x * y).mean(-1) - x.mean(-1) * y.mean(-1),
    ),
    Pair(
        "a mean of squares multiplied out",
        TWO,
        lambda x, y: (x - y).square().mean(-1),
        lambda x, y: x.square().mean(-1) - 2.0 * (x * y).mean(-1) + y.square().mean(-1),
    ),
    Pair("distances multiplied out", UNLIKE, distances, multiplied_out),
    Pair(
        "distances of columns multiplied out",
        "20x12 20x9",
        lambda a, b: (a[:, :, None] - b[:, None]).square().sum(0),
        lambda a, b: a.square().sum(0)[:, None] + b.square().sum(0)[None] - 2.0 * (a.mT @ b),
    ),
    Pair(
        "a kernel of distances multiplied out",
        UNLIKE,
        lambda a, b: torch.exp(-distances(a, b) / 20.0),
        lambda a, b: torch.exp(-multiplied_out(a, b) / 20.0),
    ),
    Pair(
        "distances of centred rows multiplied out",
        UNLIKE,
        lambda a, b: distances(centred(a), centred(b)),
        lambda a, b: multiplied_out(centred(a), centred(b)),
    ),
]
