"""Tensors that no kernel writes because each element is determined where it is loaded: positions
along a dimension, and rows of a table by index.

At the kernel level they are :class:`Lookup`\\ s. No search looks into a lookup: to its readers it
is an input with arbitrary elements, so a proof about the rest holds for all of its contents. When
the kernels are chosen, loads of it become :class:`TileIota` and :class:`TileGather`
(:mod:`mirage.transforms.lookups`), which are *defined* as the result of that load. For
other readers kernels write rows (:mod:`mirage.transforms.written_rows`), and positions become calls
of the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.domain import Domain, Planes, map_planes
from mirage.semantics.indexing.indices import Region
from mirage.semantics.ops.block_ops import renamed_map
from mirage.semantics.ops.kinds import Lookup as Lookup
from mirage.semantics.ops.kinds import Source, Tiled
from mirage.semantics.ops.op import NamedRows, Op, TensorType, UnknownOp, Value
from mirage.semantics.ops.part_counts import Parts
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TileMap

MAX_POSITIONS = 1 << 24
"""The largest number of positions that a tile represents exactly: whole numbers in f32."""
_TABLES = (DType.F16, DType.BF16, DType.F32)
"""The element types of tables of which kernels load rows."""


@dataclass(frozen=True, eq=False)
class Iota(Lookup):
    """A tensor in which each element is its own index along ``dim``."""

    dim: int

    arity: ClassVar[tuple[int, int]] = (0, 0)

    def result_type(self, b: Builder) -> TensorType:
        given = self.result.type
        if not 0 <= self.dim < len(given.shape):
            raise ShapeError(f"expected a dimension of {given}, got {self.dim}")
        if given.dtype not in (DType.I32, DType.I64):
            raise ShapeError(f"expected positions of type i32 or i64, got {given.dtype.value}")
        return given

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        if shape != self.result.shape:
            raise UnknownOp("expected all positions to be wanted, got a part of them")
        found = positions(domain, shape, self.dim, self.result.dtype)
        return map_planes(lambda p: p.reshape((1,) * lead + p.shape), found)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return ()

    @property
    def indices_below(self) -> int:
        return self.result.shape[self.dim]

    @property
    def counts_along(self) -> int | None:
        return self.dim

    @property
    def in_tiles(self) -> bool:
        """Positions of rank 1 that f32 represents: loads of tensors of higher rank would also be
        zero beyond the other dimensions."""
        return self.result.type.size <= MAX_POSITIONS and len(self.result.shape) == 1

    def tile(
        self,
        result: Value,
        cuts: TileMap,
        param: Callable[[Value], Value],
        lines: Container[Value],
    ) -> TileIota:
        return TileIota((), (result,), self.dim, cuts[self.dim], self.result.shape[self.dim])


@dataclass(frozen=True, eq=False)
class Gather(Lookup):
    """The rows (along the first dimension) of a table that indices select. The operands are
    ``(table, indices)``; the result has the dimensions of the indices, then those of a row. With
    ``from_end``, negative indices count from the end of the table."""

    from_end: bool = False

    arity: ClassVar[tuple[int, int]] = (2, 2)

    @property
    def names_rows(self) -> NamedRows:
        return NamedRows(self.operands[1], self.operands[0].shape[0], self.from_end)

    def counting_from_start(self, b: Builder) -> Gather:
        if not self.from_end:
            return self
        table, index = self.operands
        counted = counted_from_start(b, index, table.shape[0])
        return replace(self, operands=(table, counted), from_end=False)

    def result_type(self, b: Builder) -> TensorType:
        return gathered(*self.operands)

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        table, indices = xs
        found = None if lead else domain.rows(table, indices)
        if found is not None:
            return found
        if len(indices) != 1 or indices[0].dtype == object:
            # in neither case it is known which row is meant
            got = "formulas" if len(indices) == 1 else "residues"
            raise UnknownOp(f"expected indices that are known numbers, got {got}")
        rows = self.operands[0].shape[0]
        index = indices[0]
        if self.from_end:
            index = np.where(index < 0, index + rows, index)
        inside = (index >= 0) & (index < rows)
        at = np.where(inside, index, 0).astype(np.int64)
        keep = inside.reshape(inside.shape + (1,) * (len(self.operands[0].shape) - 1))
        return map_planes(lambda p: np.where(keep, _rows(p, at, lead), np.nan), table)

    def needs(self, region: Region) -> tuple[Region, ...]:
        rank = len(self.operands[1].shape)
        return ((None, *region[rank:]), tuple(region[:rank]))

    @property
    def in_tiles(self) -> bool:
        """Rows of floats."""
        table, indices = self.operands
        return table.dtype in _TABLES and len(table.shape) >= 2 and bool(indices.shape)

    def tile(
        self,
        result: Value,
        cuts: TileMap,
        param: Callable[[Value], Value],
        lines: Container[Value],
    ) -> TileGather:
        return TileGather(tuple(map(param, self.operands)), (result,), cuts, self.from_end)


def _rows(table: Array, at: Array, lead: int) -> Array:
    """Return rows of several tables at once: tables and indices start with ``lead`` dimensions that
    broadcast."""
    if not lead:
        return table[at]
    outer = np.broadcast_shapes(table.shape[:lead], at.shape[:lead])
    tables = np.broadcast_to(table, outer + table.shape[lead:])
    indices = np.broadcast_to(at, outer + at.shape[lead:])
    found = np.stack([tables[i][indices[i]] for i in np.ndindex(*outer)])
    return found.reshape(outer + found.shape[1:])


def gathered(table: Value, indices: Value) -> TensorType:
    """Return the type of the gathered rows of ``table``. Raises :class:`ShapeError`."""
    if not table.shape:
        raise ShapeError(f"expected a table with rows, got {table.type}")
    if indices.dtype not in (DType.I32, DType.I64):
        raise ShapeError(f"expected indices of type i32 or i64, got {indices.dtype.value}")
    return TensorType((*indices.shape, *table.shape[1:]), table.dtype)


def positions(domain: Domain, shape: tuple[int, ...], dim: int, dtype: DType) -> Planes:
    """Return the index of each element along ``dim``, in a domain."""
    numbers = [domain.constant(i, dtype) for i in range(shape[dim])]
    where = tuple(-1 if d == dim else 1 for d in range(len(shape)))
    return tuple(
        np.broadcast_to(np.stack(planes).reshape(where), shape)
        for planes in zip(*numbers, strict=True)
    )


# ---- block level -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TileIota(Source):
    """The result of loading positions along one dimension: element ``i`` along ``dim`` is
    ``part(axes) * tile + i``, and 0 where that is not below ``extent``."""

    dim: int
    axes: tuple[str, ...]
    extent: int

    arity: ClassVar[tuple[int, int]] = (0, 0)
    in_kernel: ClassVar[bool] = False

    @property
    def reads_along(self) -> TileMap:
        return (self.axes,)

    def with_axes(self, names: Mapping[str, str]) -> TileIota:
        return replace(self, axes=tuple(names.get(a, a) for a in self.axes))

    def with_parts(self, parts: Parts) -> TileIota:
        tile = self.result.shape[self.dim]
        return replace(self, extent=parts.size(self.extent, self.axes, tile))

    def written(self, xs: Sequence[str]) -> str:
        return f"position[{'/'.join((str(self.extent), *self.axes))}]"


@dataclass(frozen=True, eq=False)
class TileGather(Source):
    """The result of loading gathered rows of a table; the operands ``(table, indices)`` are
    params."""

    map: TileMap
    from_end: bool = False

    arity: ClassVar[tuple[int, int]] = (2, 2)
    in_kernel: ClassVar[bool] = False

    @property
    def names_rows(self) -> NamedRows:
        return NamedRows(self.operands[1], self.operands[0].shape[0], self.from_end)

    @property
    def reads_along(self) -> TileMap:
        return self.map

    def with_axes(self, names: Mapping[str, str]) -> TileGather:
        return replace(self, map=renamed_map(self.map, names))

    @property
    def tiled(self) -> tuple[Tiled, ...]:
        """The dimensions of the result are those of the indices, and then those of a row."""
        table, indices = self.operands
        rank = len(indices.shape)
        of = [(indices, dim) for dim in range(rank)]
        of += [(table, dim) for dim in range(1, len(table.shape))]
        cuts = zip(of, self.map, self.result.shape, strict=True)
        whole = Tiled(table, 0, (), table.shape[0])
        return (whole, *(Tiled(tensor, dim, axes, tile) for (tensor, dim), axes, tile in cuts))

    def written(self, xs: Sequence[str]) -> str:
        return f"{xs[0]}[{xs[1]}]"


def iota(b: Builder, shape: tuple[int, ...], dim: int, dtype: DType = DType.I64) -> Value:
    """Return positions along ``dim``, reusing those that the builder already has."""
    for op in b.ops:
        if isinstance(op, Iota) and (op.result.type, op.dim) == (TensorType(shape, dtype), dim):
            return op.result
    op = Iota((), (Value(TensorType(shape, dtype)),), dim)
    op.result_type(b)
    b.ops.append(op)
    return op.result


def gather(b: Builder, table: Value, indices: Value, *, from_end: bool = False) -> Value:
    """Emit a gather of rows of a table, ``from_end`` of which negative indices count."""
    op = Gather((table, indices), (Value(gathered(table, indices)),), from_end)
    b.ops.append(op)
    return op.result


def counted_from_start(b: Builder, index: Value, size: int) -> Value:
    """Emit indices that count from the start, given indices of which negative ones count from the
    end."""
    zero, rows = (b.constant(n, index.dtype) for n in (0, size))
    negative = b.cast(b.binary(BinaryFn.LT, index, zero), index.dtype)
    return b.binary(BinaryFn.ADD, index, b.binary(BinaryFn.MUL, negative, rows))


def with_indices_from_start(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with indices that count from the start of their table only; the same object
    if there are no others."""
    b = Builder()
    for op in graph.ops:
        b.ops.append(op.counting_from_start(b))
    same = len(b.ops) == len(graph.ops)
    return graph if same else replace(graph, ops=tuple(b.ops))


def select(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Emit ``x`` where the condition holds and ``y`` elsewhere. One of two summands is zero, so
    nothing is rounded, and the element that is not chosen may be infinite or NaN."""
    kept = b.binary(BinaryFn.KEEP, condition, x)
    other = b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, condition), y)
    return b.binary(BinaryFn.ADD, kept, other)


def index_of(op: Op) -> Value | None:
    """Return the indices by which an op looks rows up; None for other ops."""
    if not isinstance(op, Lookup) or op.names_rows is None:
        return None
    return op.names_rows.index


def looked_up(ops: Iterable[object]) -> dict[Value, Lookup]:
    """Return the tensors that kernels will look up, among the results of some ops."""
    return {v: op for op in ops if isinstance(op, Lookup) for v in op.results}


def index_ranks(lookups: Mapping[int, Lookup]) -> dict[int, int]:
    """Return the number of dimensions of the indices by which rows are looked up."""
    indices = ((key, index_of(op)) for key, op in lookups.items())
    return {key: len(index.shape) for key, index in indices if index is not None}
