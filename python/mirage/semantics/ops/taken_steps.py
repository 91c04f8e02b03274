"""The steps of a loop that a block takes, where they are not all of them.

Which steps they are follows from the block's position, and from integers that the block reads
(a length, the position of a token), by two numbers, a first step and the one after the last. Each
is a sum of positions and of what is read, times integers, divided by an integer and rounded down:
the keys that the rows of a tile see begin and end in step with the rows.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from mirage.semantics.scalar import Array

TileMap = tuple[tuple[str, ...], ...]
"""For each tensor dimension, the names of the axes that split it, outermost first."""

MOST_READ = 64
"""Elements of which a block reads the greatest or the least."""
SAMPLES = 8
"""Numbers that stand for all that a block may read, where its steps are counted."""


class ExtremeFn(enum.Enum):
    """Which of several numbers."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Reading:
    """An integer that a block reads: the greatest or least element of its part of a tensor, moved
    into ``[least, most]``. ``map`` cuts the tensor along grid axes into parts of the shape
    ``tile``, which cover it without overhang."""

    fn: ExtremeFn
    map: TileMap
    tile: tuple[int, ...]
    least: int
    most: int

    @property
    def axes(self) -> frozenset[str]:
        """The grid axes on which it depends."""
        return frozenset(axis for axes in self.map for axis in axes)

    @property
    def single(self) -> bool:
        """Whether it is of one element."""
        return prod(self.tile) == 1

    def of(self, parts: Array) -> Array:
        """The integers of parts, whose last dimensions are those of the tensor."""
        dims = tuple(range(parts.ndim - len(self.tile), parts.ndim))
        found = parts.max(axis=dims) if self.fn is ExtremeFn.MAX else parts.min(axis=dims)
        return np.clip(found, self.least, self.most).astype(np.int64)

    def spread(self) -> Array:
        """A few numbers, evenly spread over all that it may be."""
        count = self.most - self.least + 1
        return self.least + (2 * np.arange(SAMPLES) + 1) * count // (2 * SAMPLES)


@dataclass(frozen=True)
class StepNumber:
    """``floor((sum of factor * position + sum of factor * integer + constant) / divisor)`` of
    positions along grid axes, and of what the block reads, by its number in
    :attr:`Steps.readings`. Terms are in the order of their names."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0
    divisor: int = 1
    reads: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(sorted(self.terms)))

    def at(self, positions: Mapping[str, Array], read: Sequence[Array] = ()) -> Array:
        """The numbers at positions and for integers, whose arrays broadcast."""
        total = np.asarray(self.constant, dtype=np.int64)
        for axis, factor in self.terms:
            total = total + factor * positions[axis]
        for i, factor in self.reads:
            total = total + factor * read[i]
        return np.asarray(total // self.divisor)

    def __str__(self) -> str:
        named = [*((f"read{i}", n) for i, n in self.reads), *self.terms]
        parts = [name if n == 1 else f"{n} {name}" for name, n in named]
        if self.constant or not parts:
            parts.append(str(self.constant))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if self.divisor == 1 else f"({text}) / {self.divisor}"


@dataclass(frozen=True)
class Steps:
    """The steps from ``first`` on that are below ``end``.

    The first one is moved into ``[0, extent - 1]``, the end into ``[first + 1, extent]``: each
    block takes at least one step. ``readings`` are what the block reads of the loop's operands,
    one of each.
    """

    first: StepNumber
    end: StepNumber
    readings: tuple[Reading, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The grid axes whose positions they name, in the order of their first use."""
        terms = (*self.first.terms, *self.end.terms)
        return tuple(dict.fromkeys(axis for axis, _ in terms))

    @property
    def depends(self) -> frozenset[str]:
        """The grid axes along which they may differ."""
        return frozenset(self.axes).union(*(r.axes for r in self.readings))

    def range_at(
        self, positions: Mapping[str, Array], extent: int, read: Sequence[Array] = ()
    ) -> tuple[Array, Array]:
        """The first step, and the one after the last, of a loop of ``extent`` steps."""
        first = np.clip(self.first.at(positions, read), 0, extent - 1)
        return first, np.clip(self.end.at(positions, read), first + 1, extent)

    def counts(self, extents: Mapping[str, int], extent: int) -> Array:
        """How many steps the blocks take, with a dimension for each of :attr:`axes`: on average
        over numbers that are evenly spread, where they depend on what is read."""
        rank = len(self.axes)
        positions = {
            axis: np.arange(extents[axis]).reshape((1,) * i + (-1,) + (1,) * (rank - i - 1))
            for i, axis in enumerate(self.axes)
        }
        spread = [*product(*(r.spread() for r in self.readings))]
        total = np.zeros(())
        for read in spread:
            first, end = self.range_at(positions, extent, read)
            total = total + (end - first)
        shape = tuple(extents[a] for a in self.axes)
        return np.broadcast_to(total if not self.readings else total / len(spread), shape)
