"""The possible results of a reference whose sums are rounded separately for each element that uses
them.

A program does not say in which order sums are added. If a mean is subtracted from all elements of a
row, its error is the same for all of them, and the variance does not contain it. A kernel that uses
a separate mean for each part of a row loses digits there, and is just as correct.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mirage.semantics.ugraph import (
    Binary,
    Cast,
    KernelGraph,
    Op,
    Reduce,
    Reshape,
    Slice,
    Transpose,
    Unary,
    Value,
)

from oracle.evaluator import Input, Oracle
from oracle.pytorch import torch
from oracle.runs import levelled

_OFF = 2.0**-23
"""The largest relative error of a sum."""
_KEEPS = (Cast, Reshape, Slice, Transpose, Unary)


def sums_of(graph: KernelGraph) -> frozenset[Value]:
    """Return the sums, and the functions that depend only on sums."""
    found: set[Value] = set()
    for op in graph.ops:
        some = any(v in found for v in op.operands)
        alone = some and all(v in found or v.type.size == 1 for v in op.operands)
        summed = isinstance(op, Reduce) and op.fn.value == "sum"
        if summed or (alone and isinstance(op, (*_KEEPS, Binary))):
            found.update(op.results)
    return frozenset(found)


class SummedAnew(Oracle):
    """Typed runs of a reference whose sums are off at each use."""

    def __init__(self, graph: KernelGraph, inputs: Sequence[Input], *, runs: int = 1) -> None:
        super().__init__(graph, inputs, typed=True, runs=runs)
        self._sums = sums_of(graph)
        self._random = np.random.default_rng(0)

    def elementary(self, op: Op, xs: Sequence[torch.Tensor]) -> torch.Tensor:
        if isinstance(op, Binary) and any(v in self._sums for v in op.operands):
            even = levelled(xs)
            shape = np.broadcast_shapes(*(tuple(x.shape) for x in even))
            pairs = zip(op.operands, even, strict=True)
            xs = [self._used(x, shape) if v in self._sums else x for v, x in pairs]
        return super().elementary(op, xs)

    def _used(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """Return a sum as an op reads it whose result has a given shape and number of runs."""
        if tuple(x.shape)[1:] == shape[1:]:
            return x
        return x * torch.from_numpy(1.0 + _OFF * self._random.uniform(-1.0, 1.0, shape))
