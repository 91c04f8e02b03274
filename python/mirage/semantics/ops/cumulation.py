"""Sums and maxima of the elements so far along a dimension, at both levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
_AT_ONCE = 1 << 16
"""The elements that are evaluated together: so many stay in a cache from pass to pass."""


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
        x, axis = xs[0], self.dim + lead
        sizes = shape_of(x)
        others = [n if d != axis else 0 for d, n in enumerate(sizes)]
        along = int(np.argmax(others))
        count = min(others[along], -(-math.prod(sizes) // _AT_ONCE))
        if count <= 1:
            return self._scanned(domain, x, axis)
        ends = [sizes[along] * k // count for k in range(count + 1)]
        parts = [_part(x, along, start, end) for start, end in pairwise(ends)]
        return domain.concat([self._scanned(domain, part, axis) for part in parts], along)

    def _scanned(self, domain: Domain, x: Planes, axis: int) -> Planes:
        dtype = self.result.dtype
        wide = DType.F32 if dtype.is_half else dtype
        count = shape_of(x)[axis]

        def turned(x: Planes) -> Planes:
            return map_planes(lambda p: np.flip(p, axis), x) if self.reversed else x

        x = domain.cast(turned(x), wide)  # once: parts of unlike types would be converted each time
        if self.exclusive:
            one = shape_of(_part(x, axis, 0, 1))
            nothing = domain.constant(NOTHING[self.fn], wide)
            first = map_planes(lambda p: np.broadcast_to(p, one), nothing)
            x = domain.concat((first, _part(x, axis, 0, count - 1)), axis)
        step = 1
        while step < count:  # as the parts of a block are combined
            earlier, later = _part(x, axis, 0, count - step), _part(x, axis, step, count)
            sums = domain.binary(COMBINED[self.fn], later, earlier, wide)
            x = domain.concat((_part(x, axis, 0, step), sums), axis)
            step *= 2
        return domain.cast(turned(x), dtype)

    @property
    def passes(self) -> int:
        return (self.operands[0].shape[self.dim] - 1).bit_length()

    def made(self, region: Region) -> Region:
        return tuple(None if d == self.dim else r for d, r in enumerate(region))

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (self.made(region),)

    def written(self, xs: Sequence[str]) -> str:
        words = ("after", "from_here") if self.reversed else ("before", "so_far")
        before = words[0] if self.exclusive else words[1]
        return called(f"{self.fn.value}_{before}{self.dim}", xs)


def _part(x: Planes, dim: int, start: int, end: int) -> Planes:
    return map_planes(lambda p: p[(slice(None),) * dim + (slice(start, end),)], x)
