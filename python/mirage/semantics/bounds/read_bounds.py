"""Integers that blocks read and that bound the steps of their loops.

An integer that a block reads from a tensor (:class:`~mirage.semantics.ops.taken_steps.Reading`) is
known only when the block runs. But it lies between two numbers, and a loop's steps change at only a
few of the numbers in between. A *piece* is an interval in which the loop takes the same steps. For
each piece, the ranges of all tiles are computed with the tensor's elements bounded by it
(:data:`Assumed`). The pieces at both ends stand for all integers that a reading clamps to its
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from mirage.semantics.bounds.ranges import Range
from mirage.semantics.ops.taken_steps import MOST_READ, ExtremeFn, Reading, TileMap
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import Launch, Source, Value, all_ops, axis_extents

Part: TypeAlias = "tuple[Value, TileMap, tuple[int, ...]]"
"""The part of a param that a block loads: the param, its map, and the shape of the part."""
Assumed: TypeAlias = "Mapping[Part, Range]"
"""The ranges of loaded integers. Their arrays have a leading dimension for the pieces, then those
for grid axes and steps."""

NOTHING: Assumed = {}

MOST_NUMBERS = 1 << 20
"""The most numbers of a reading that are examined one by one."""


def part_of(load: Source) -> Part:
    """Return the part that a load reads in each block; the load must not be cut by a loop."""
    return load.operands[0], load.cuts, load.result.shape


def bounding_parts(launch: Launch, known: Mapping[Value, object]) -> Iterator[Part]:
    """Yield the parts of integer params that blocks load and that may bound a loop. ``known`` are
    params with known numbers."""
    grid = {a.name for a in launch.grid}
    extents = axis_extents(launch)
    seen: set[Part] = set()
    for op in all_ops(launch.body.ops):
        if not isinstance(op, Source) or not op.cuts or op.operands[0] in known:
            continue
        param, tile_map, tile = part = part_of(op)
        if param.dtype not in (DType.I32, DType.I64) or part in seen:
            continue
        covered = tuple(
            prod(extents[a] for a in axes) * n for axes, n in zip(tile_map, tile, strict=True)
        )
        if grid >= op.reads_axes and covered == param.shape and prod(tile) <= MOST_READ:
            seen.add(part)
            yield part


@dataclass(frozen=True)
class Pieces:
    """The pieces of a reading: for each one, the numbers from ``low`` to ``high``."""

    reading: Reading
    low: Array
    high: Array

    def chunks(self, count: int) -> Iterator[Pieces]:
        """Yield the pieces in groups of at most ``count`` (at least one)."""
        for i in range(0, len(self.low), max(1, count)):
            part = slice(i, i + max(1, count))
            yield Pieces(self.reading, self.low[part], self.high[part])

    def range(self, rank: int) -> Range:
        """Return the range of the elements that are read if the reading lies in each piece; arrays
        have ``rank`` dimensions after the first one."""
        reading = self.reading
        low = np.where(self.low <= reading.least, -np.inf, self.low)
        high = np.where(self.high >= reading.most, np.inf, self.high)
        if not reading.single:  # one element is the greatest; the others may be anything
            low, high = (
                (np.full_like(low, -np.inf), high)
                if reading.fn is ExtremeFn.MAX
                else (low, np.full_like(high, np.inf))
            )
        shape = (-1,) + (1,) * rank
        no = np.zeros((), bool)
        exact = max(-reading.least, reading.most) < MAX_POSITIONS
        return Range(low.reshape(shape), high.reshape(shape), no, no, whole=exact)


def numbers_of(reading: Reading) -> Array:
    """Return all numbers of a reading, in order."""
    return np.arange(reading.least, reading.most + 1)


def pieces_where_equal(reading: Reading, values: Array) -> Pieces:
    """Return the pieces in which ``values`` (whose first dimension counts all numbers) are
    constant."""
    numbers = numbers_of(reading)
    flat = values.reshape(len(numbers), -1)
    starts = np.flatnonzero(np.r_[True, (flat[1:] != flat[:-1]).any(axis=1)])
    ends = np.r_[starts[1:], len(numbers)] - 1
    return Pieces(reading, numbers[starts], numbers[ends])
