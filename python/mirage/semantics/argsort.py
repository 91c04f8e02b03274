"""The places of elements in order.

Short or few lines are ordered by counting the elements before each element: this consists of
comparisons and sums, which the search and proofs know. Many long lines are ordered by an
:class:`Argsort`: no search or proof looks inside, and a separate kernel
(:mod:`mirage.transforms.sorting_kernels`) sorts each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.domain import Domain, Planes
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.kinds import Boundary, Cumulation
from mirage.semantics.ops.op import TensorType, UnknownOp, Value, called
from mirage.semantics.scalar import Array, DType


class _OfLines:
    """An op that reads whole lines along ``dim``."""

    dim: int
    descending: bool

    def made(self, region: Region) -> Region:
        return tuple(None if d == self.dim else r for d, r in enumerate(region))

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (self.made(region),)

    def written(self, xs: Sequence[str]) -> str:
        order = "_descending" if self.descending else ""
        return called(f"argsort{self.dim}{order}", xs)


@dataclass(frozen=True, eq=False)
class Argsort(_OfLines, Boundary):
    """The places along ``dim`` of the elements of each line, in ascending or ``descending`` order,
    or the first of these. Equal elements keep their order, and NaN is larger than all numbers."""

    dim: int
    descending: bool = False

    in_block: ClassVar[bool] = False

    @property
    def only_reads(self) -> bool:
        return True

    @property
    def indices_below(self) -> int:
        return self.operands[0].shape[self.dim]

    def says(self, xs: str) -> str:
        return f"argsort({xs}; {self.dim}, {self.descending})"

    def result_type(self, b: Builder) -> TensorType:
        sizes = self.result.shape[self.dim : self.dim + 1]
        return _result_type(self.operands[0], self.dim, *sizes)

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        first = range(shape[self.dim])
        return (_in_order(xs[0], self.dim + lead, self.descending).take(first, self.dim + lead),)


@dataclass(frozen=True, eq=False)
class TileArgsort(_OfLines, Cumulation):
    """The places of the elements of a tile, which has whole lines."""

    dim: int
    descending: bool = False

    in_kernel: ClassVar[bool] = False
    of_integers: ClassVar[bool] = True

    def result_type(self, b: Builder) -> TensorType:
        (x,) = self.operands
        if x.dtype not in (DType.F32, DType.I64):
            raise ShapeError(f"expected a tile of f32 or i64, got {x.type}")
        return _result_type(x, self.dim)

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return (_in_order(xs[0], self.dim + lead, self.descending),)

    @property
    def along(self) -> int:
        return self.dim

    @property
    def rounds(self) -> int:
        """The rounds of a bitonic network."""
        bits = max(self.result.shape[self.dim] - 1, 1).bit_length()
        return bits * (bits + 1) // 2


def _result_type(x: Value, dim: int, count: int | None = None) -> TensorType:
    if not 0 <= dim < len(x.shape):
        raise ShapeError(f"expected a dimension of {x.type}, got {dim}")
    count = x.shape[dim] if count is None else count
    if count > x.shape[dim]:
        raise ShapeError(f"expected at most {x.shape[dim]} places, got {count}")
    return TensorType((*x.shape[:dim], count, *x.shape[dim + 1 :]), DType.I64)


def _in_order(x: Planes, axis: int, descending: bool) -> Array:
    if len(x) != 1 or x[0].dtype == object:
        raise UnknownOp("expected numbers that are known, got residues or symbols")
    if not descending:
        return np.argsort(x[0], axis, kind="stable").astype(np.int64)
    # from the end, since equal elements keep their order
    last = x[0].shape[axis] - 1
    return last - np.flip(np.argsort(np.flip(x[0], axis), axis, kind="stable"), axis)


def argsort(
    b: Builder, x: Value, dim: int, count: int | None = None, *, descending: bool = False
) -> Value:
    """Emit the places of the elements of each line of ``x`` along ``dim``, in order, or the first
    ``count`` of them."""
    op = Argsort((x,), (Value(_result_type(x, dim, count)),), dim, descending)
    b.ops.append(op)
    return op.result
