"""Sums and maxima of integers of any size, and running sums, maxima and products.

They are computed in 64 bits, and sums and products wrap around at the ends of their type, as in
PyTorch. Their meaning is that of :class:`Reduce` and :class:`Cumulate`, which kernels compute as
floats; no search and no proof looks inside of these. When the kernels are chosen, launches compute
them (:mod:`mirage.transforms.integer_kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.domain import Domain, Planes, as_integers, map_planes
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.kinds import Boundary
from mirage.semantics.ops.op import Op, TensorType
from mirage.semantics.scalar import CumulateFn, ReduceFn
from mirage.semantics.ugraph import Cumulate, Reduce


@dataclass(frozen=True, eq=False)
class IntegerTotal(Boundary, kind=True):
    """A total of integers, which has their type. It has the fields of the class ``floats``."""

    in_block: ClassVar[bool] = False

    floats: ClassVar[type[Op]]
    """The ops of the same meaning that kernels compute as floats."""

    @property
    def over(self) -> tuple[int, ...]:
        """The dimensions that the result lacks; none if it has all."""
        return ()

    @property
    def as_floats(self) -> Op:
        return self.floats(self.operands, self.results, *_own_fields(self))

    def says(self, xs: str) -> str:
        return f"{type(self).__name__.lower()}({xs}; {_own_fields(self)})"

    def result_type(self, b: Builder) -> TensorType:
        (x,) = self.operands
        if not x.dtype.is_number:
            raise ShapeError(f"expected integers, got {x.type}")
        return self.as_floats.result_type(b)

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        dtype = self.result.dtype
        (x,) = map(as_integers, xs)
        return map_planes(
            lambda p: p.astype(dtype.numpy).astype(p.dtype) if p.dtype == np.int64 else p,
            self.as_floats.compute(domain, [x], lead, shape),
        )

    def made(self, region: Region) -> Region:
        return self.as_floats.made(region)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return self.as_floats.needs(region)

    def written(self, xs: Sequence[str]) -> str:
        return self.as_floats.written(xs)


@dataclass(frozen=True, eq=False)
class IntegerReduce(IntegerTotal):
    """The sum or the maximum over ``dims``, which keep size 1."""

    fn: ReduceFn
    dims: tuple[int, ...]

    floats: ClassVar[type[Op]] = Reduce

    @property
    def over(self) -> tuple[int, ...]:
        return self.dims


@dataclass(frozen=True, eq=False)
class IntegerCumulate(IntegerTotal):
    """The total of all elements up to each one along ``dim``, as of :class:`Cumulate`."""

    fn: CumulateFn
    dim: int
    exclusive: bool = False
    reversed: bool = False

    floats: ClassVar[type[Op]] = Cumulate


_EXACT: dict[type[Op], type[IntegerTotal]] = {
    kind.floats: kind for kind in (IntegerReduce, IntegerCumulate)
}


def _own_fields(op: Op) -> tuple[object, ...]:
    """Return the fields of an op other than its operands and results."""
    return tuple(getattr(op, f.name) for f in fields(op) if f.name not in ("operands", "results"))


def exact_total(op: Op) -> IntegerTotal | None:
    """Return a sum or a maximum of integers as exact arithmetic; None for other ops."""
    types = {v.dtype for v in (*op.operands, *op.results)}
    if type(op) not in _EXACT or len(types) != 1 or not types.pop().is_number:
        return None
    return _EXACT[type(op)](op.operands, op.results, *_own_fields(op))
