"""Sums and maxima of the elements so far along a dimension, at both levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes, shape_of
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.kinds import Cumulation
from mirage.semantics.ops.op import TensorType, called
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder

COMBINED = {ReduceFn.SUM: BinaryFn.ADD, ReduceFn.MAX: BinaryFn.MAX}
"""The function of two elements of which each reduction is made."""
NOTHING = {ReduceFn.SUM: 0.0, ReduceFn.MAX: -math.inf}
"""The reduction of no element."""


@dataclass(frozen=True, eq=False)
class Cumulate(Cumulation):
    """The reduction of all elements up to each one along ``dim``, or, if ``exclusive``, of those
    before it. If ``reversed``, the last element is the first."""

    fn: ReduceFn
    dim: int
    exclusive: bool = False
    reversed: bool = False

    def result_type(self, b: Builder) -> TensorType:
        (x,) = self.operands
        return b.cumulate(
            self.fn, x, self.dim, exclusive=self.exclusive, reversed=self.reversed
        ).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        x, axis, dtype = xs[0], self.dim + lead, self.result.dtype
        wide = DType.F32 if dtype.is_half else dtype
        count = shape_of(x)[axis]

        def part(x: Planes, start: int, end: int) -> Planes:
            return map_planes(lambda p: p[(slice(None),) * axis + (slice(start, end),)], x)

        def turned(x: Planes) -> Planes:
            return map_planes(lambda p: np.flip(p, axis), x) if self.reversed else x

        x = turned(x)
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
        return domain.cast(turned(x), dtype)

    def made(self, region: Region) -> Region:
        return tuple(None if d == self.dim else r for d, r in enumerate(region))

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (self.made(region),)

    def written(self, xs: Sequence[str]) -> str:
        words = ("after", "from_here") if self.reversed else ("before", "so_far")
        before = words[0] if self.exclusive else words[1]
        return called(f"{self.fn.value}_{before}{self.dim}", xs)
