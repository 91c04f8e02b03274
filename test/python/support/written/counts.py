"""Means over the elements that masks keep, which may be none."""

from __future__ import annotations

import torch
from torch import Tensor

from written.pairs import Pair

ROWS, TOKENS = "5x7 5x7:b", "2x6x4 2x6:b"


def mean(x: Tensor, m: Tensor) -> Tensor:
    return (x * m).sum(-1) / m.sum(-1).clamp(min=1)


def kept(x: Tensor, m: Tensor) -> Tensor:
    return torch.where(m.any(-1), x.masked_fill(~m, 0).sum(-1) / m.sum(-1), 0.0)


def pooled(x: Tensor, m: Tensor) -> Tensor:
    some = m.float()[..., None]
    return (x * some).sum(1) / some.sum(1).clamp(min=1.0)


def pooled_where_any(x: Tensor, m: Tensor) -> Tensor:
    count = m.sum(1, keepdim=True)
    total = (m.float()[:, None] @ x)[:, 0]
    return torch.where(count > 0, total / torch.where(count > 0, count, 1), torch.zeros_like(total))


MASKS = "4x6 4x6 4x6:b 4x6:b"


def first(n):
    """Where the first elements of rows of 12 are."""
    return torch.arange(12) < n[:, None]


COUNTS_RIGHT = [
    Pair("mean where any", ROWS, mean, kept),
    Pair("mean by a count that is one more at zero", ROWS, mean,
         lambda x, m: (x * m).sum(-1) / (m.sum(-1) + (m.sum(-1) == 0))),
    Pair("mean of tokens", TOKENS, pooled, pooled_where_any),
    Pair("first elements, counted", "4x12 4:i64",
         lambda x, n: (x * first(n)).sum(1) / first(n).sum(1).clamp(min=1),
         lambda x, n: (x * first(n)).sum(1) / n.clamp(1, 12)),
    Pair("first rows, masked", "4x12x5 4:i64",
         lambda x, n: (lambda m: (x * m[:, :, None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1))(
             first(n).float()),
         lambda x, n: x.masked_fill(~first(n)[:, :, None], 0.0).sum(1) / n.clamp(1, 12)[:, None],
         False),
    Pair("the others, counted", "4x12 4:i64",
         lambda x, n: (torch.arange(12) > n[:, None]).sum(1), lambda x, n: 11 - n.clamp(-1, 11)),
    Pair("masks within masks", MASKS,
         lambda x, y, m, n: torch.where(m & n, x, torch.where(m, y, x + y)),
         lambda x, y, m, n: torch.where(m, torch.where(n, x, y), x + y)),
    Pair("either mask", MASKS,
         lambda x, y, m, n: torch.where(m | n, x, y),
         lambda x, y, m, n: torch.where(m, x, torch.where(n & ~m, x, y))),
    Pair("mean of all", ROWS, lambda x, m: (x * m).sum() / m.sum().clamp(min=1),
         lambda x, m: torch.where(m.any(), (x * m).sum() / m.sum(), 0.0)),
]  # fmt: skip

COUNTS_WRONG = [
    Pair("the other mask within", MASKS,
         lambda x, y, m, n: torch.where(m & n, x, torch.where(m, y, x + y)),
         lambda x, y, m, n: torch.where(n, torch.where(m, x, y), x + y)),
    Pair("one mask alone", MASKS,
         lambda x, y, m, n: torch.where(m | n, x, y),
         lambda x, y, m, n: torch.where(m, x, torch.where(n & m, x, y))),
    Pair("first elements and one more", "4x12 4:i64",
         lambda x, n: (torch.arange(12) <= n[:, None]).sum(1), lambda x, n: n.clamp(0, 12)),
    Pair("fewer than all elements", "4x12 4:i64",
         lambda x, n: first(n).sum(1), lambda x, n: n.clamp(0, 11)),
    Pair("sum of everything where any", ROWS, lambda x, m: x.sum(-1) / m.sum(-1).clamp(min=1),
         lambda x, m: torch.where(m.any(-1), x.sum(-1) / m.sum(-1), 0.0)),
    Pair("count of at least two", ROWS, kept,
         lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=2)),
    Pair("any of the other rows", "5x5 5x5:b", mean,
         lambda x, m: torch.where(m.any(0), (x * m).sum(-1) / m.sum(-1), 0.0)),
    Pair("sum along the other rows", "5x5 5x5:b",
         lambda x, m: (x * m).sum(0) / m.sum(-1).clamp(min=1),
         lambda x, m: torch.where(m.any(-1), (x * m).sum(0) / m.sum(-1), 0.0)),
    Pair("sum of what is not left", ROWS, lambda x, m: (x * ~m).sum(-1) / m.sum(-1).clamp(min=1),
         lambda x, m: torch.where(m.any(-1), (x * ~m).sum(-1) / m.sum(-1), 0.0)),
    Pair("nothing of what is not defined", ROWS,
         lambda x, m: torch.where(m.any(-1), (torch.log(x) * m).sum(-1) / m.sum(-1), 0.0),
         lambda x, m: (torch.log(x) * m).sum(-1) / m.sum(-1).clamp(min=1)),
]  # fmt: skip
