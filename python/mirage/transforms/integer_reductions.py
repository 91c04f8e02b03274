"""Blocks that reduce integers.

A block loads tiles of integers of 64 bits (or computes them, if they are those of a formula), adds
them up element by element over its steps, and reduces the sums in the end. If there are few
results, several blocks share each of them, and a second kernel combines their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, prod

from mirage.semantics.integer_totals import IntegerReduce
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Output,
    Reduce,
    Schedule,
    TileMap,
)

WARPS = 4
TILE = 1024
"""The elements of a tile: each thread loads several at once."""
COLUMNS = 64
"""The columns of a tile that is reduced along its rows."""
BLOCKS = 512
"""The blocks that keep the memory of a large chip busy."""
LEAST_STEPS = 8
"""The tiles for which a block is worthwhile, if others can take them."""


@dataclass(frozen=True)
class Cut:
    """How a dimension is cut: into ``parts`` for the grid, each of ``steps`` tiles."""

    size: int
    tile: int
    parts: int = 1
    steps: int = 1

    @property
    def overhangs(self) -> bool:
        return self.parts * self.steps * self.tile > self.size


def reducing(op: IntegerReduce) -> list[Launch]:
    """Return the launches that reduce integers; the last one has the result."""
    return _reducing(op.fn, op.operands[0], op.result, op.dims)


def _reducing(fn: ReduceFn, x: Value, result: Value, dims: Sequence[int]) -> list[Launch]:
    cuts = _cuts(x.shape, dims)
    shape = tuple(cut.parts if d in dims else cut.size for d, cut in enumerate(cuts))
    if shape == result.shape:
        return [reduction(fn, x, result, dims, cuts)]
    partial = Value(TensorType(shape, result.dtype))
    first = reduction(fn, x, partial, dims, cuts)
    return [first, *_reducing(fn, partial, result, dims)]


def _cuts(shape: tuple[int, ...], dims: Sequence[int]) -> list[Cut]:
    """Return how each dimension is cut. Tiles extend along the last dimension, where elements are
    neighbours in memory, and along one other."""
    tile = _tile(shape, dims)
    counts = [ceil(n / t) for n, t in zip(shape, tile, strict=True)]
    blocks = prod(count for d, count in enumerate(counts) if d not in dims)
    longest = max(dims, key=lambda d: counts[d])
    parts = min(ceil(BLOCKS / blocks), counts[longest] // LEAST_STEPS)
    steps = ceil(counts[longest] / max(parts, 1))
    cuts: list[Cut] = []
    for d, (size, own, count) in enumerate(zip(shape, tile, counts, strict=True)):
        if d not in dims:
            cuts.append(Cut(size, own, parts=count))
        elif d == longest:
            cuts.append(Cut(size, own, ceil(count / steps), steps))
        else:
            cuts.append(Cut(size, own, steps=count))
    return cuts


def _tile(shape: tuple[int, ...], dims: Sequence[int]) -> tuple[int, ...]:
    tile = [1] * len(shape)
    wide = [d for d, n in enumerate(shape) if n > 1] or [len(shape) - 1]
    last = wide.pop()
    tile[last] = min(shape[last], TILE if last in dims else COLUMNS)
    others = wide if last in dims else [d for d in wide if d in dims]
    if others:
        rows = TILE // padded(tile[last])
        tile[others[-1]] = max(1, min(shape[others[-1]], rows))
    return tuple(tile)


def padded(size: int) -> int:
    """Return the size that registers have for elements of ``size``: a power of two."""
    return 1 << (size - 1).bit_length()


def grid_of(cuts: Sequence[Cut]) -> tuple[tuple[Axis, ...], TileMap]:
    """Return the axes of the grid, and how they cut a tensor."""
    axes = tuple(Axis(f"g{d}", cut.parts) for d, cut in enumerate(cuts) if cut.parts > 1)
    return axes, tuple((f"g{d}",) if cut.parts > 1 else () for d, cut in enumerate(cuts))


def reduction(
    fn: ReduceFn, x: Value, result: Value, dims: Sequence[int], cuts: Sequence[Cut]
) -> Launch:
    """Return a launch in which each block reduces its part over ``dims``."""
    grid, stored = grid_of(cuts)
    inner = [Axis(f"k{d}", cut.steps) for d, cut in enumerate(cuts) if cut.steps > 1]
    loaded: TileMap = tuple(
        (*axes, f"k{d}") if cut.steps > 1 else axes
        for d, (axes, cut) in enumerate(zip(stored, cuts, strict=True))
    )
    tile = TensorType(tuple(cut.tile for cut in cuts), DType.I64)
    param, value = Value(x.type, x.name), Value(tile)
    ops: list[Op] = [Load((param,), (value,), loaded)]
    for d in dims:
        if fn is ReduceFn.MAX and cuts[d].overhangs:
            ops.append(Mask((value,), (Value(tile),), d, loaded[d], cuts[d].size, -inf))
            value = ops[-1].result
    how = AccumulateFn.SUM if fn is ReduceFn.SUM else AccumulateFn.MAX
    for axis in reversed(inner):
        total = Value(tile)
        ops = [Loop((), (total,), axis, tuple(ops), (Accumulator(how, value),))]
        value = total
    wide = tuple(d for d in dims if cuts[d].tile > 1)
    if wide:
        shape = tuple(1 if d in wide else cut.tile for d, cut in enumerate(cuts))
        ops.append(Reduce((value,), (Value(TensorType(shape, DType.I64)),), fn, wide))
        value = ops[-1].result
    body = BlockGraph((param,), tuple(ops), (Output(value, stored),))
    return Launch((x,), (result,), grid, body, Schedule(warps=WARPS, stages=1))
