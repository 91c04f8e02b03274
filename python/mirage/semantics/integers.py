"""Tensors of exact arithmetic on integers, which the kernels that load them compute.

:class:`Integers` is a lookup: no search and no proof looks inside, and to its readers it is an
input with arbitrary elements. When the kernels are chosen, a load of it becomes a
:class:`TileIntegers` (:mod:`mirage.transforms.lookups`), which is *defined* as the result of that
load. If anything other than a kernel reads it, a separate kernel writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mirage.semantics.builder import Builder, ShapeError, broadcast_shapes
from mirage.semantics.domain import Domain, Planes, pad_rank
from mirage.semantics.indexing.indices import Region
from mirage.semantics.integer_formula import Formula, FormulaError
from mirage.semantics.ops.block_ops import renamed_map
from mirage.semantics.ops.kinds import Elementwise, Lookup, Source, Tiled, Zeros
from mirage.semantics.ops.op import NamedRows, TensorType, UnknownOp, Value
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.ugraph import TileMap


@dataclass(frozen=True, eq=False)
class Integers(Lookup):
    """The last step of a formula, for each element; the loads of the formula say along which
    dimensions of the result the operands lie."""

    formula: Formula

    arity: ClassVar[tuple[int, int]] = (0, 64)

    def result_type(self, b: Builder) -> TensorType:
        shape = self.result.shape
        try:
            self.formula.check([(v.shape, v.dtype) for v in self.operands], shape)
            return TensorType(shape, self.formula.dtype)
        except FormulaError as error:
            raise ShapeError(str(error)) from error

    @property
    def arithmetic(self) -> tuple[Formula, tuple[int, ...]]:
        return self.formula, self.result.shape

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        if any(len(x) != 1 or x[0].dtype == object for x in xs):
            raise UnknownOp("expected integers that are known numbers, got residues or symbols")
        tables = self.formula.tables
        if lead and tables:
            raise UnknownOp("expected one program at a time, got several tables to pick from")
        given = [
            x[0] if i in tables else _along(x[0], lead, dims, len(shape))
            for i, (x, dims) in enumerate(zip(xs, self.formula.loads, strict=True))
        ]
        found = self.formula.evaluate(given, shape)
        outer = np.broadcast_shapes(*(x.shape[:lead] for x in given)) if lead else ()
        found = np.broadcast_to(found, (*outer, *shape))
        return _as_held(domain, found, self.result.dtype)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return tuple(
            tuple(None if d < 0 else region[d] for d in dims) for dims in self.formula.loads
        )

    @property
    def in_tiles(self) -> bool:
        return True

    @property
    def named_indices(self) -> tuple[NamedRows, ...]:
        return _named(self.operands, self.formula)

    @property
    def picks_from(self) -> tuple[Value, ...]:
        return tuple(self.operands[i] for i in sorted(self.formula.tables))

    def says(self, xs: str) -> str:
        return f"integers {self.formula}({xs})"

    def tile(
        self,
        result: Value,
        cuts: TileMap,
        param: Callable[[Value], Value],
        lines: Container[Value],
    ) -> TileIntegers:
        """Positions are computed, too."""
        counted = {
            i
            for i, (v, dims) in enumerate(zip(self.operands, self.formula.loads, strict=True))
            if v in lines and dims[0] >= 0
        }
        operands = tuple(param(v) for i, v in enumerate(self.operands) if i not in counted)
        formula = self.formula.with_positions(counted) if counted else self.formula
        return TileIntegers(operands, (result,), cuts, self.result.shape, formula)

    def written(self, xs: Sequence[str]) -> str:
        return self.formula.written(xs)


def _along(x: Array, lead: int, dims: tuple[int, ...], rank: int) -> Array:
    """Return ``x`` with its dimensions, after the ``lead`` first ones, along those of a result."""
    here = tuple(0 if d < 0 else slice(None) for d in dims)
    x = x[(*(slice(None) for _ in range(lead)), *here)]
    along = [d for d in dims if d >= 0]
    order = sorted(range(len(along)), key=lambda i: along[i])
    x = x.transpose(*range(lead), *(lead + i for i in order))
    sizes = dict(zip(sorted(along), x.shape[lead:], strict=True))
    return x.reshape(*x.shape[:lead], *(sizes.get(d, 1) for d in range(rank)))


@dataclass(frozen=True, eq=False)
class TileIntegers(Source):
    """The result of loading a tile of exact arithmetic on params. ``shape`` is that of the tensor
    that it is a tile of. A tile of i64 holds the integers themselves."""

    map: TileMap
    shape: tuple[int, ...]
    formula: Formula

    arity: ClassVar[tuple[int, int]] = (0, 64)
    in_kernel: ClassVar[bool] = False

    @property
    def arithmetic(self) -> tuple[Formula, tuple[int, ...]]:
        return self.formula, self.shape

    @property
    def reads_along(self) -> TileMap:
        return self.map

    @property
    def named_indices(self) -> tuple[NamedRows, ...]:
        return _named(self.operands, self.formula)

    def with_axes(self, names: Mapping[str, str]) -> TileIntegers:
        return replace(self, map=renamed_map(self.map, names))

    @property
    def computed(self) -> TensorType:
        """The type of the tensor."""
        return TensorType(self.shape, self.formula.dtype)

    @property
    def tiled(self) -> tuple[Tiled, ...]:
        loads = zip(self.operands, self.formula.loads, strict=True)
        cut = (
            Tiled(operand, number, self.map[dim], self.result.shape[dim])
            for operand, dims in loads
            for number, dim in enumerate(dims)
            if dim >= 0
        )
        tables = (self.operands[i] for i in sorted(self.formula.tables))
        whole = (
            Tiled(table, number, (), n) for table in tables for number, n in enumerate(table.shape)
        )
        return (*cut, *whole)

    def written(self, xs: Sequence[str]) -> str:
        return self.formula.written(xs)


def _named(operands: Sequence[Value], formula: Formula) -> tuple[NamedRows, ...]:
    return tuple(
        NamedRows(operands[index], operands[table].shape[dim], from_end)
        for index, table, dim, from_end in formula.indices
    )


_RING = {BinaryFn.ADD.value, BinaryFn.SUB.value, BinaryFn.MUL.value}


@dataclass(frozen=True, eq=False)
class MapIntegers(Elementwise):
    """The last step of a formula of tiles, element by element; its loads have no dimensions, as
    tiles are broadcast."""

    formula: Formula

    arity: ClassVar[tuple[int, int]] = (1, 64)
    in_kernel: ClassVar[bool] = False
    of_integers: ClassVar[bool] = True

    @property
    def arithmetic(self) -> tuple[Formula, tuple[int, ...]]:
        return self.formula, self.result.shape

    @property
    def work(self) -> tuple[float, float]:
        return float(2 * self.formula.work), 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.NEVER

    def result_type(self, b: Builder) -> TensorType:
        shape: tuple[int, ...] = ()
        for v in self.operands:
            shape = broadcast_shapes(shape, v.shape)
        try:
            self.formula.check_steps([v.dtype for v in self.operands])
            return TensorType(shape, held(self.formula.dtype))
        except FormulaError as error:
            raise ShapeError(str(error)) from error

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        given = [pad_rank(x, lead, len(shape)) for x in xs]
        if any(len(x) != 1 or x[0].dtype == object for x in xs):
            return self._in_ring(domain, given)
        return _as_held(domain, self.formula.evaluate([x[0] for x in given]), self.formula.dtype)

    def _in_ring(self, domain: Domain, values: list[Planes]) -> Planes:
        """Compute functions that have a meaning in any arithmetic: values that are equal there are
        also equal where integers of 64 bits wrap around."""
        for step in self.formula.steps[len(values) :]:
            if step.name not in _RING or step.dtype is not DType.I64:
                raise UnknownOp(f"expected integers that are known numbers for '{step.name}'")
            a, b = (values[arg] for arg in step.args)
            values.append(domain.binary(BinaryFn(step.name), a, b, DType.I64))
        return values[-1]

    def written(self, xs: Sequence[str]) -> str:
        return self.formula.written(xs)


def held(dtype: DType) -> DType:
    """Return the type of a tile that is stored as a type: integers are not converted."""
    return DType.I64 if dtype.is_number else dtype.in_tile


def _as_held(domain: Domain, x: Array, dtype: DType) -> Planes:
    """Return the result of a formula of a type, in a domain."""
    if dtype.is_number:
        return (x,)
    if not dtype.is_integer:  # halves are rounded twice, as PyTorch does
        (x,) = domain.cast((x,), DType.F32)
    return domain.cast((np.asarray(x, np.float64),), dtype)
