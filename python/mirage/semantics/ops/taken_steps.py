"""The steps of a loop that a block takes, if it does not take all of them.

The steps follow from the block's position and from integers that the block reads (a length, the
position of a token), as two numbers: the first step and the one after the last. Each number is a
sum of positions and integers with integral factors, divided by an integer and rounded down: the
keys that the rows of a tile attend to start and end in step with the rows.
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
"""The most elements whose maximum or minimum a block reads."""
SAMPLES = 8
"""The number of samples that stand for all integers that a block may read, when its steps are
counted."""


class ExtremeFn(enum.Enum):
    """Whether the maximum or the minimum of several numbers is taken."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Reading:
    """An integer that a block reads: the maximum or minimum of its part of a tensor, clamped to
    ``[least, most]``. ``map`` cuts the tensor along grid axes into parts of the shape ``tile``,
    which cover it without overhang."""

    fn: ExtremeFn
    map: TileMap
    tile: tuple[int, ...]
    least: int
    most: int

    @property
    def axes(self) -> frozenset[str]:
        """The grid axes on which the integer depends."""
        return frozenset(axis for axes in self.map for axis in axes)

    @property
    def single(self) -> bool:
        """Whether the part has a single element."""
        return prod(self.tile) == 1

    def of(self, parts: Array) -> Array:
        """Return the integers of parts, whose last dimensions are those of the tensor."""
        dims = tuple(range(parts.ndim - len(self.tile), parts.ndim))
        found = parts.max(axis=dims) if self.fn is ExtremeFn.MAX else parts.min(axis=dims)
        return np.clip(found, self.least, self.most).astype(np.int64)

    def spread(self) -> Array:
        """Return a few numbers, evenly spread over the range of the integer."""
        count = self.most - self.least + 1
        return self.least + (2 * np.arange(SAMPLES) + 1) * count // (2 * SAMPLES)


@dataclass(frozen=True)
class StepNumber:
    """The number ``floor((sum of factor * position + sum of factor * integer + constant) /
    divisor)``, with positions along grid axes and integers that the block reads, by their number in
    :attr:`Steps.readings`. Terms are ordered by name."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0
    divisor: int = 1
    reads: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(sorted(self.terms)))

    def at(self, positions: Mapping[str, Array], read: Sequence[Array] = ()) -> Array:
        """Return the numbers at given positions and integers, whose arrays broadcast."""
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

    The first step is clamped to ``[0, extent - 1]``, the end to ``[first + 1, extent]``: each block
    takes at least one step. ``readings`` are the integers that the block reads from the loop's
    operands, one from each.
    """

    first: StepNumber
    end: StepNumber
    readings: tuple[Reading, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The grid axes whose positions the numbers use, in the order of their first use."""
        terms = (*self.first.terms, *self.end.terms)
        return tuple(dict.fromkeys(axis for axis, _ in terms))

    @property
    def depends(self) -> frozenset[str]:
        """The grid axes along which the steps may differ."""
        return frozenset(self.axes).union(*(r.axes for r in self.readings))

    def range_at(
        self, positions: Mapping[str, Array], extent: int, read: Sequence[Array] = ()
    ) -> tuple[Array, Array]:
        """Return the first step and the one after the last, for a loop of ``extent`` steps."""
        first = np.clip(self.first.at(positions, read), 0, extent - 1)
        return first, np.clip(self.end.at(positions, read), first + 1, extent)

    def counts(self, extents: Mapping[str, int], extent: int) -> Array:
        """Return how many steps the blocks take, with a dimension for each of :attr:`axes`. If the
        steps depend on integers that are read, this is the average over evenly spread integers."""
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
