"""Sums and maxima of the elements so far along a dimension, at both levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes, shape_of
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.op import Op, TensorType, called
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder

COMBINED = {ReduceFn.SUM: BinaryFn.ADD, ReduceFn.MAX: BinaryFn.MAX}
"""The function of two elements of which each reduction is made."""
NOTHING = {ReduceFn.SUM: 0.0, ReduceFn.MAX: -math.inf}
"""The reduction of no element."""


@dataclass(frozen=True, eq=False)
class Cumulate(Op):
    """The reduction of all elements up to each one along ``dim``, or, if ``exclusive``, of those
    before it."""

    fn: ReduceFn
    dim: int
    exclusive: bool = False

    def result_type(self, b: Builder) -> TensorType:
        return b.cumulate(self.fn, self.operands[0], self.dim, exclusive=self.exclusive).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        x, axis, dtype = xs[0], self.dim + lead, self.result.dtype
        wide = DType.F32 if dtype.is_half else dtype
        count = shape_of(x)[axis]

        def part(x: Planes, start: int, end: int) -> Planes:
            return map_planes(lambda p: p[(slice(None),) * axis + (slice(start, end),)], x)

        if self.exclusive:
            one = shape_of(part(x, 0, 1))
            nothing = domain.constant(NOTHING[self.fn], wide)
            first = map_planes(lambda p: np.broadcast_to(p, one), nothing)
            x = domain.concat((first, part(x, 0, count - 1)), axis)
        step = 1
        while step < count:  # as the parts of a block are combined
            later = domain.binary(
                COMBINED[self.fn], part(x, step, count), part(x, 0, count - step), wide
            )
            x = domain.concat((part(x, 0, step), later), axis)
            step *= 2
        return domain.cast(x, dtype)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (tuple(None if d == self.dim else r for d, r in enumerate(region)),)

    def written(self, xs: Sequence[str]) -> str:
        before = "before" if self.exclusive else "so_far"
        return called(f"{self.fn.value}_{before}{self.dim}", xs)
