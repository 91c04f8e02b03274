"""Tensors whose first dimension is that of simultaneous runs; it has length 1 if all runs are the
same.
"""

from __future__ import annotations

from collections.abc import Sequence

from oracle.pytorch import torch

Tensor = torch.Tensor


def levelled(xs: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors of the same rank: those with fewer dimensions get additional ones after that
    of runs."""
    rank = max((x.ndim for x in xs), default=0)
    return [
        x
        if x.ndim == rank
        else x.reshape((x.shape[0], *(1,) * (rank - x.ndim), *tuple(x.shape)[1:]))
        for x in xs
    ]


def expanded(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return each run of a tensor, broadcast to that shape."""
    more = (1,) * (len(shape) + 1 - x.ndim)
    return x.reshape((x.shape[0], *more, *tuple(x.shape)[1:])).expand((x.shape[0], *shape))


def joined(xs: Sequence[Tensor], dim: int) -> Tensor:
    """Join tensors along a dimension (in each run)."""
    runs = max(x.shape[0] for x in xs)
    every = [x.to(torch.float64).expand((runs, *tuple(x.shape)[1:])) for x in xs]
    return torch.cat(every, dim + 1)


def gathered(rows: Tensor, indices: Tensor) -> Tensor:
    """Return rows by number in each run."""
    runs = max(rows.shape[0], indices.shape[0])
    each = [_chosen(*(x[min(k, x.shape[0] - 1)] for x in (rows, indices))) for k in range(runs)]
    return torch.cat([x.reshape((1, *tuple(x.shape))) for x in each], 0)


def _chosen(rows: Tensor, indices: Tensor) -> Tensor:
    """Return rows by number; a row that does not exist is NaN."""
    there = (indices >= 0) & (indices < rows.shape[0])
    at = torch.where(there, indices, torch.zeros_like(indices)).to(torch.int64)
    found = rows.to(torch.float64)[at]
    keep = there.reshape((*there.shape, *(1,) * (found.ndim - there.ndim)))
    return torch.where(keep, found, torch.full((), torch.nan, dtype=torch.float64))
