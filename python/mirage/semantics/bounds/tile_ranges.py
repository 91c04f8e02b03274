"""Ranges of tiles with known positions, for all steps of a loop and all blocks at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from mirage.semantics.bounds import ranges
from mirage.semantics.bounds.overhanging_tiles import (
    INNER,
    MOST_EDGES,
    UNKNOWN,
    Edge,
    Tile,
    any_other,
    each,
    in_shape,
    joined,
    subsets,
    viewed,
)
from mirage.semantics.bounds.ranges import Range
from mirage.semantics.bounds.read_bounds import NOTHING, Assumed, part_of
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
        self.divisors: set[int] = set()  # ranges of integers, for quotients and remainders
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
        return each(ranges.any_sum, tile) if a.fn is AccumulateFn.SUM else tile

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
                return each(_running, *xs)
            case View():
                return self._reshaped(op) if op.renames else viewed(op, *xs)
            case _ if op.number is not None:
                return Tile.of(ranges.number(op.number))
            case _ if op.joined_along is not None:
                return joined(op, op.joined_along, xs)
            case Source() | Movement() | Contraction() | Cumulation():
                return any_other(xs)
            case _:
                no_rule(op, "ranges of tiles")
                return any_other(xs)

    def _elementwise(self, op: Elementwise, xs: list[Tile]) -> Tile:
        function = op.function
        if isinstance(function, UnaryFn):
            maker = self.makers.get(op.operands[0])
            if maker is not None and function is maker.function is UnaryFn.NEG:
                return self.tiles[maker.operands[0]]  # also for minus infinity
            return each(lambda x: ranges.unary(function, x), *xs)
        if isinstance(function, BinaryFn):
            if function in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
                self.divisors.update(_whole_number(xs[1].all))
            return each(lambda x, y: ranges.binary(function, x, y), *xs)
        if op.identity:
            return each(lambda x: _rounded(x, op.result.dtype), *xs)
        return any_other(xs)

    def _reshaped(self, op: View) -> Tile:
        """Return the range of a reshape. A reshape of a reshape is treated as one, so that edges
        that the first one loses may be found again."""
        source = op.operands[0]
        maker = self.makers.get(source)
        while maker is not None and maker.renames:
            source = maker.operands[0]
            maker = self.makers.get(source)
        return in_shape(source.shape, op.result.shape, self.tiles[source])

    def _load(self, op: Load) -> Tile:
        iota = self.positions.get(op.operands[0])
        if iota is None:
            assumed = self.assumed.get(part_of(op))
            return UNKNOWN if assumed is None else Tile.of(assumed)
        for dim, size in enumerate(iota.result.shape):  # zeros beyond another dimension
            parts = np.prod([self.extents[a] for a in op.map[dim]], dtype=int)
            if dim != iota.dim and parts * op.result.shape[dim] != size:
                return UNKNOWN
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
        return Tile({INNER: within, frozenset((edge,)): zeros})

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
        if len(edges) > MOST_EDGES:
            return Tile.of(ranges.where(overhangs, ranges.hull(x.all, fill), x.all))
        return Tile(
            {
                t: ranges.where(overhangs, fill, x.at(t - {edge})) if edge in t else x.at(t)
                for t in subsets(edges)
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


def _reduced(op: Reduce, x: Tile) -> Tile:
    tile = x.merged(x.along([d - len(op.operands[0].shape) for d in op.dims]))
    return each(ranges.any_sum, tile) if op.sums else tile


def _product(rows: Tile, columns: Tile) -> Tile:
    other = columns.all
    return each(lambda x: ranges.any_product_sum(x, other), rows.merged(rows.along((-1,))))


def _rounded(x: Range, dtype: DType) -> Range:
    """Return the range, rounded to ``dtype`` if necessary."""
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
