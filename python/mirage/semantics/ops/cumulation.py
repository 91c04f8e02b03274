"""Sums, maxima and products of the elements so far along a dimension, at both levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mirage.semantics.domain import Domain, Planes, in_type_of, map_planes, shape_of
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.kinds import Cumulation
from mirage.semantics.ops.op import TensorType, called
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder

COMBINED = {
    CumulateFn.SUM: BinaryFn.ADD, CumulateFn.MAX: BinaryFn.MAX, CumulateFn.PROD: BinaryFn.MUL
}  # fmt: skip
"""The function by which two elements are combined."""
NOTHING = {CumulateFn.SUM: 0.0, CumulateFn.MAX: -math.inf, CumulateFn.PROD: 1.0}
"""The result for no elements."""
_GROUP = 8
"""The neighbouring elements that are combined one after the other."""


@dataclass(frozen=True, eq=False)
class Cumulate(Cumulation):
    """The combination of all elements up to each one along ``dim``, or, if ``exclusive``, of those
    before it. If ``reversed``, the last element is the first."""

    fn: CumulateFn
    dim: int
    exclusive: bool = False
    reversed: bool = False

    of_integers: ClassVar[bool] = True

    def result_type(self, b: Builder) -> TensorType:
        (x,) = self.operands
        return b.cumulate(
            self.fn, x, self.dim, exclusive=self.exclusive, reversed=self.reversed
        ).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        axis, dtype = self.dim + lead, self.result.dtype
        wide = DType.F32 if dtype.is_half else dtype
        count = shape_of(xs[0])[axis]

        def turned(x: Planes) -> Planes:
            return map_planes(lambda p: np.flip(p, axis), x) if self.reversed else x

        x = domain.cast(turned(xs[0]), wide)  # once, or each of its parts would be converted again
        if self.exclusive:
            one = shape_of(_part(x, axis, 0, 1))
            nothing = domain.constant(NOTHING[self.fn], wide)
            first = tuple(
                np.broadcast_to(in_type_of(p, n), one) for p, n in zip(x, nothing, strict=False)
            )
            x = domain.concat((first, _part(x, axis, 0, count - 1)), axis)

        def combined(later: Planes, earlier: Planes) -> Planes:
            return domain.binary(COMBINED[self.fn], later, earlier, wide)

        return domain.cast(turned(_so_far(domain, combined, x, axis)), dtype)

    @property
    def along(self) -> int:
        return self.dim

    def made(self, region: Region) -> Region:
        return tuple(None if d == self.dim else r for d, r in enumerate(region))

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (self.made(region),)

    def written(self, xs: Sequence[str]) -> str:
        words = ("after", "from_here") if self.reversed else ("before", "so_far")
        before = words[0] if self.exclusive else words[1]
        return called(f"{self.fn.value}_{before}{self.dim}", xs)


def _so_far(
    domain: Domain, combined: Callable[[Planes, Planes], Planes], x: Planes, axis: int
) -> Planes:
    """Return the combination of all elements up to each one along ``axis``: of a few neighbours one
    after the other, then of these groups, as the threads of a block share the work."""
    count = shape_of(x)[axis]
    groups = count // _GROUP
    if groups <= 1:
        return _one_by_one(domain, combined, x, axis)
    whole = groups * _GROUP
    inside = _one_by_one(domain, combined, _cut(_part(x, axis, 0, whole), axis, groups), axis + 1)
    totals = _part(inside, axis + 1, _GROUP - 1, _GROUP)
    before = _cut(_so_far(domain, combined, _joined(totals, axis), axis), axis, groups)
    others = combined(_part(inside, axis, 1, groups), _part(before, axis, 0, groups - 1))
    parts = [_joined(_part(inside, axis, 0, 1), axis), _joined(others, axis)]
    if whole < count:
        rest = _one_by_one(domain, combined, _part(x, axis, whole, count), axis)
        last = _joined(_part(before, axis, groups - 1, groups), axis)
        parts.append(combined(rest, last))
    return domain.concat(parts, axis)


def _one_by_one(
    domain: Domain, combined: Callable[[Planes, Planes], Planes], x: Planes, axis: int
) -> Planes:
    elements = [_part(x, axis, k, k + 1) for k in range(shape_of(x)[axis])]
    return domain.concat(list(accumulate(elements, lambda so_far, e: combined(e, so_far))), axis)


def _cut(x: Planes, axis: int, groups: int) -> Planes:
    """Divide ``axis`` into groups, which become a dimension of their own before it."""
    return map_planes(lambda p: p.reshape(*p.shape[:axis], groups, -1, *p.shape[axis + 1 :]), x)


def _joined(x: Planes, axis: int) -> Planes:
    """Join ``axis`` with the dimension after it."""
    return map_planes(lambda p: p.reshape(*p.shape[:axis], -1, *p.shape[axis + 2 :]), x)


def _part(x: Planes, dim: int, start: int, end: int) -> Planes:
    return map_planes(lambda p: p[(slice(None),) * dim + (slice(start, end),)], x)
