"""Ranges of tiles with known positions, for all steps of a loop and all blocks at once.

A tile may overhang its tensor. The elements outside differ from the others (positions are zero
there, and masks may set any value), so they have ranges of their own (:class:`Tile`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from mirage.semantics.bounds import ranges
from mirage.semantics.bounds.ranges import ANY, Range
from mirage.semantics.bounds.read_bounds import NOTHING, Assumed, part_of
from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.positions import Iota, TileIota
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Contraction,
    Cumulation,
    Elementwise,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Movement,
    Op,
    Reduce,
    RunningMax,
    Source,
    Value,
    View,
    axis_extents,
    no_rule,
)

Positions: TypeAlias = "Mapping[Value, Iota]"
"""The positions that a kernel loads, by its params."""


@dataclass(frozen=True)
class Edge:
    """The end of a tensor of ``extent`` elements that ``axes`` cut into tiles, along a dimension
    that is counted from the last one (-1)."""

    dim: int
    axes: tuple[str, ...]
    tile: int
    extent: int


Beyond: TypeAlias = "frozenset[Edge]"

_MOST_EDGES = 4
"""The most edges of a tile: there is a range for each set of them, so further edges are
forgotten."""
_INNER: Beyond = frozenset()


@dataclass(frozen=True)
class Tile:
    """The ranges of a tile's elements: for each set of its edges, the range of the elements beyond
    exactly these."""

    parts: Mapping[Beyond, Range]

    @staticmethod
    def of(x: Range) -> Tile:
        """Return a tile whose elements all have one range."""
        return Tile({_INNER: x})

    @property
    def all(self) -> Range:
        """The range of all elements."""
        return ranges.hull(*self.parts.values())

    def outside_of(self, gone: Beyond) -> Range:
        """Return the range of the elements that are beyond none of some edges."""
        return ranges.hull(*(x for s, x in self.parts.items() if s.isdisjoint(gone)))

    @property
    def edges(self) -> Beyond:
        """The known edges of the tile."""
        return frozenset(e for s in self.parts for e in s)

    def at(self, beyond: Beyond) -> Range:
        """Return the range of the elements beyond exactly these edges."""
        return self.parts[beyond & self.edges]

    def moved(self, dims: Mapping[int, int]) -> Tile:
        """Move the edges to other dimensions. Dimensions count from the last one, in keys and
        values. If an edge is at a dimension that is not a key, the result has no edges."""
        if any(e.dim not in dims for e in self.edges):
            return Tile.of(self.all)
        return Tile(
            {
                frozenset(Edge(dims[e.dim], e.axes, e.tile, e.extent) for e in s): x
                for s, x in self.parts.items()
            }
        )

    def merged(self, gone: Beyond) -> Tile:
        """Return the tile without some of its edges."""
        parts: dict[Beyond, Range] = {}
        for s, x in self.parts.items():
            parts[s - gone] = ranges.hull(parts[s - gone], x) if s - gone in parts else x
        return Tile(parts)

    def along(self, dims: Container[int]) -> Beyond:
        """Return the edges at some dimensions."""
        return frozenset(e for e in self.edges if e.dim in dims)


def _each(function: Callable[..., Range], *tiles: Tile) -> Tile:
    """Apply an elementwise function to tiles that are aligned at the last dimension."""
    edges = frozenset(e for t in tiles for e in t.edges)
    if len(edges) > _MOST_EDGES:
        return Tile.of(function(*(t.all for t in tiles)))
    return Tile({s: function(*(t.at(s) for t in tiles)) for s in _subsets(edges)})


def _subsets(edges: Beyond) -> Iterator[Beyond]:
    for count in range(len(edges) + 1):
        yield from map(frozenset, combinations(edges, count))


_UNKNOWN = Tile.of(ANY)


class TileRanges:
    """The ranges of all values of a launch, at each step of ``loop`` and each block.

    Arrays have a dimension for each grid axis, then one for the steps (or 1 in their place). Other
    loops are not followed step by step: a range holds in all of their steps. Loaded integers are as
    ``assumed``.
    """

    def __init__(
        self, launch: Launch, loop: Loop, positions: Positions, assumed: Assumed = NOTHING
    ) -> None:
        self.loop, self.positions, self.assumed = loop, positions, assumed
        self.extents = axis_extents(launch)
        self.tiles: dict[Value, Tile] = {}
        self.makers: dict[Value, Op] = {}
        self.cuts: list[tuple[tuple[str, ...], int]] = []  # axes of positions, and their tiles
        self.divisors: set[int] = set()  # of integers, for quotients and remainders
        axes = [*(a.name for a in launch.grid), loop.axis.name]
        self.steps: dict[str, Array] = {
            axis: np.arange(self.extents[axis]).reshape(
                (1,) * i + (-1,) + (1,) * (len(axes) - i - 1)
            )
            for i, axis in enumerate(axes)
        }
        self._run(launch.body.ops)

    def _run(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._run(op.body)
                for a, result in zip(op.accumulators, op.results, strict=True):
                    self.tiles[result] = self._accumulated(a)
            else:
                self.tiles[op.result] = self._tile(op)
                self.makers[op.result] = op

    def _accumulated(self, a: Accumulator) -> Tile:
        """Return the range after the loop: that of a value of any step, or of a sum of several."""
        tile = Tile.of(_over_steps(self.tiles[a.value].all))
        return _each(ranges.any_sum, tile) if a.fn is AccumulateFn.SUM else tile

    def _tile(self, op: Op) -> Tile:
        xs = [self.tiles[v] for v in op.operands if v in self.tiles]
        match op:
            case Load():
                return self._load(op)
            case TileIota():
                return self.positions_at(op.result, op.dim, op.axes, op.extent)
            case Mask():
                return self._mask(op, *xs)
            case Elementwise():
                return self._elementwise(op, xs)
            case Reduce():
                return _reduced(op, *xs)
            case Matmul():
                return _product(*xs)
            case RunningMax():
                return _each(_running, *xs)
            case View():
                return self._reshaped(op) if op.renames else _viewed(op, *xs)
            case _ if op.number is not None:
                return Tile.of(ranges.number(op.number))
            case _ if op.joined_along is not None:
                return _joined(op, op.joined_along, xs)
            case Source() | Movement() | Contraction() | Cumulation():
                return _any_other(xs)
            case _:
                no_rule(op, "ranges of tiles")
                return _any_other(xs)

    def _elementwise(self, op: Elementwise, xs: list[Tile]) -> Tile:
        function = op.function
        if isinstance(function, UnaryFn):
            maker = self.makers.get(op.operands[0])
            if maker is not None and function is maker.function is UnaryFn.NEG:
                return self.tiles[maker.operands[0]]  # of minus infinity, too
            return _each(lambda x: ranges.unary(function, x), *xs)
        if isinstance(function, BinaryFn):
            if function in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
                self.divisors.update(_whole_number(xs[1].all))
            return _each(lambda x, y: ranges.binary(function, x, y), *xs)
        if op.identity:
            return _each(lambda x: _rounded(x, op.result.dtype), *xs)
        return _any_other(xs)

    def _reshaped(self, op: View) -> Tile:
        """Return the range of a reshape. A reshape of a reshape is treated as one, so that edges
        that the first one loses may be found again."""
        source = op.operands[0]
        maker = self.makers.get(source)
        while maker is not None and maker.renames:
            source = maker.operands[0]
            maker = self.makers.get(source)
        return _in_shape(source.shape, op.result.shape, self.tiles[source])

    def _load(self, op: Load) -> Tile:
        iota = self.positions.get(op.operands[0])
        if iota is None:
            assumed = self.assumed.get(part_of(op))
            return _UNKNOWN if assumed is None else Tile.of(assumed)
        for dim, size in enumerate(iota.result.shape):  # zeros beyond another dimension
            parts = np.prod([self.extents[a] for a in op.map[dim]], dtype=int)
            if dim != iota.dim and parts * op.result.shape[dim] != size:
                return _UNKNOWN
        return self.positions_at(op.result, iota.dim, op.map[iota.dim], iota.result.shape[iota.dim])

    def positions_at(self, x: Value, dim: int, axes: tuple[str, ...], extent: int) -> Tile:
        """Return the range of ``extent`` positions along a dimension of ``x``, cut by ``axes``."""
        tile = x.shape[dim]
        self.cuts.append((axes, tile))
        low, high = self._parts(axes)
        first, last = low * tile, high * tile + tile - 1
        within = ranges.between(
            np.minimum(first, extent - 1), np.minimum(last, extent - 1), whole=True
        )
        if not np.any(last >= extent):
            return Tile.of(within)
        edge = Edge(dim - len(x.shape), axes, tile, extent)
        # where a tile does not overhang, nothing is beyond the edge, and any range will do
        zeros = ranges.where(last >= extent, ranges.number(0.0), within)
        return Tile({_INNER: within, frozenset((edge,)): zeros})

    def _parts(self, axes: tuple[str, ...]) -> tuple[Array, Array]:
        """Return the least and the largest number of a part."""
        low = high = np.zeros((), np.int64)
        for axis in axes:
            n = self.extents[axis]
            step = self.steps.get(axis)
            low, high = low * n, high * n
            low, high = (
                low + (0 if step is None else step),
                high + (n - 1 if step is None else step),
            )
        return low, high

    def _mask(self, op: Mask, x: Tile) -> Tile:
        tile = op.result.shape[op.dim]
        overhangs = self._parts(op.axes)[1] * tile + tile > op.extent
        if not np.any(overhangs):
            return x
        fill = ranges.number(op.fill)
        edge = Edge(op.dim - len(op.result.shape), op.axes, tile, op.extent)
        edges = x.edges | {edge}
        if len(edges) > _MOST_EDGES:
            return Tile.of(ranges.where(overhangs, ranges.hull(x.all, fill), x.all))
        return Tile(
            {
                t: ranges.where(overhangs, fill, x.at(t - {edge})) if edge in t else x.at(t)
                for t in _subsets(edges)
            }
        )


def _whole_number(x: Range) -> Iterator[int]:
    """Yield the positive whole number that all elements are; nothing if they are not known to be
    one."""
    if x.whole and not x.least.ndim and x.least == x.most and x.least > 0:
        yield int(x.least)


def _over_steps(x: Range) -> Range:
    """Return the range of the elements of all steps."""

    def all_of(values: Array, combine: Callable[..., Array]) -> Array:
        return combine(values, axis=-1, keepdims=True) if values.ndim else values

    return Range(
        all_of(x.least, np.min),
        all_of(x.most, np.max),
        all_of(x.below, np.any),
        all_of(x.wild, np.any),
        x.whole,
    )


def _running(x: Range) -> Range:
    """Return the range of the maximum over this step and any previous steps."""
    so_far = _over_steps(x)
    return Range(x.least, so_far.most, x.below, so_far.wild, x.whole)


def _any_other(xs: list[Tile]) -> Tile:
    """Return all that is known of a value that is computed from others: it is defined where they
    are."""
    return Tile.of(ranges.any_other(*(x.all for x in xs))) if xs else _UNKNOWN


def _reduced(op: Reduce, x: Tile) -> Tile:
    tile = x.merged(x.along([d - len(op.operands[0].shape) for d in op.dims]))
    return _each(ranges.any_sum, tile) if op.sums else tile


def _product(rows: Tile, columns: Tile) -> Tile:
    other = columns.all
    return _each(lambda x: ranges.any_product_sum(x, other), rows.merged(rows.along((-1,))))


def _rounded(x: Range, dtype: DType) -> Range:
    """Return the range as it is, or rounded to ``dtype``."""
    if not dtype.is_half:
        return x
    exact = 256.0  # whole numbers up to here are the same in all types
    if x.whole and np.all(np.abs(x.least) <= exact) and np.all(np.abs(x.most) <= exact):
        return x
    with np.errstate(invalid="ignore"):
        least, most = (e + s * np.abs(e) / exact for e, s in ((x.least, -1), (x.most, 1)))
        least = np.where(np.isinf(x.least), x.least, least)
        most = np.where(np.isinf(x.most), x.most, most)
    return Range(least, most, x.below, x.wild)


def _at(source: int, result: int, dims: Mapping[int, int]) -> dict[int, int]:
    """Map dimensions of an operand to those of a result, counted from the last one. ``dims`` maps
    the result's dimensions to the operand's; ``source`` and ``result`` are the ranks."""
    return {s - source: r - result for r, s in dims.items()}


def _viewed(op: View, x: Tile) -> Tile:
    """Return the ranges of a view, whose elements are in other places. If they are no longer
    counted from the same end, the place of an edge is unknown."""
    source, result = op.operands[0].shape, op.result.shape
    dims = {r: s for r, s in (op.source_dims() or {}).items() if result[r] == source[s]}
    kept = {s - len(source) for s in dims.values()}
    lost = x.along([d for d in range(-len(source), 0) if d not in kept])
    return x.merged(lost).moved(_at(len(source), len(result), dims))


def _joined(op: Op, dim: int, xs: list[Tile]) -> Tile:
    """Return the ranges of a tile that joins the given tiles along ``dim``."""
    along = (dim - len(op.result.shape),)
    return _each(ranges.hull, *(x.merged(x.along(along)) for x in xs))


def _in_shape(source: tuple[int, ...], result: tuple[int, ...], x: Tile) -> Tile:
    if source == result:
        return x
    return x.moved(_at(len(source), len(result), unit_free_dims(source, result) or {}))
