"""The steps of a loop that a block takes, if it does not take all of them.

The steps follow from the block's position and from integers that the block reads (a length, the
position of a token), as two numbers: the first step and the one after the last. Each number is a
sum of positions and integers with integral factors, divided by an integer and rounded down: the
keys that the rows of a tile attend to start and end in step with the rows, or with groups of rows.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np

from mirage.semantics.scalar import Array

TileMap = tuple[tuple[str, ...], ...]
"""For each tensor dimension, the names of the axes that split it, outermost first."""

MOST_READ = 128
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
    """The number ``floor((sum of factor * position + sum of factor * integer + sum of factor *
    quotient + constant) / divisor)``, with positions along grid axes, integers that the block
    reads, by their number in :attr:`Steps.readings`, and quotients: numbers of the same form, such
    as that of the group of rows in which the block's rows lie. Terms are ordered by name."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0
    divisor: int = 1
    reads: tuple[tuple[int, int], ...] = ()
    quotients: tuple[tuple[StepNumber, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(sorted(self.terms)))
        object.__setattr__(self, "reads", tuple(sorted(self.reads)))

    @property
    def axes(self) -> tuple[str, ...]:
        """The grid axes whose positions the number uses, in the order of their first use."""
        inner = (axis for quotient, _ in self.quotients for axis in quotient.axes)
        return tuple(dict.fromkeys((*(axis for axis, _ in self.terms), *inner)))

    @property
    def depends_on_reads(self) -> bool:
        """Whether the number depends on integers that the block reads."""
        return bool(self.reads) or any(quotient.depends_on_reads for quotient, _ in self.quotients)

    def at(self, positions: Mapping[str, Array], read: Sequence[Array] = ()) -> Array:
        """Return the numbers at given positions and integers, whose arrays broadcast."""
        total = np.asarray(self.constant, dtype=np.int64)
        for axis, factor in self.terms:
            total = total + factor * positions[axis]
        for i, factor in self.reads:
            total = total + factor * read[i]
        for quotient, factor in self.quotients:
            total = total + factor * quotient.at(positions, read)
        return np.asarray(total // self.divisor)

    def times(self, factor: int) -> StepNumber:
        """Return a multiple of the number."""
        if self.divisor != 1:
            return StepNumber((), quotients=((self, factor),))
        return StepNumber(
            _multiples(self.terms, factor),
            self.constant * factor,
            1,
            _multiples(self.reads, factor),
            _multiples(self.quotients, factor),
        )

    def plus(self, other: StepNumber) -> StepNumber:
        """Return the sum of two numbers."""
        x, y = (self, other) if self.divisor != 1 else (other, self)
        y = y.times(1)  # without a divisor
        y = y.times(x.divisor)  # floor(x / c) + y is floor((x + c y) / c)
        return StepNumber(
            _sum(x.terms, y.terms),
            x.constant + y.constant,
            x.divisor,
            _sum(x.reads, y.reads),
            _sum(x.quotients, y.quotients),
        )

    def over(self, divisor: int) -> StepNumber:
        """Return the quotient by ``divisor``, rounded down."""
        return replace(self, divisor=self.divisor * divisor)

    def __str__(self) -> str:
        quotients = ((f"({quotient})", n) for quotient, n in self.quotients)
        named = [*((f"read{i}", n) for i, n in self.reads), *self.terms, *quotients]
        parts = [name if n == 1 else f"{n} {name}" for name, n in named]
        if self.constant or not parts:
            parts.append(str(self.constant))
        text = " + ".join(parts).replace("+ -", "- ")
        if self.divisor == 1:
            return text
        return f"({text}) / {self.divisor}" if " " in text else f"{text} / {self.divisor}"


_Named = TypeVar("_Named")
_Terms: TypeAlias = "tuple[tuple[_Named, int], ...]"


def _multiples(terms: _Terms[_Named], factor: int) -> _Terms[_Named]:
    return tuple((name, n * factor) for name, n in terms if n * factor)


def _sum(x: _Terms[_Named], y: _Terms[_Named]) -> _Terms[_Named]:
    total = dict(x)
    for name, n in y:
        total[name] = total.get(name, 0) + n
    return tuple((name, n) for name, n in total.items() if n)


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
        return tuple(dict.fromkeys((*self.first.axes, *self.end.axes)))

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
        return self._samples(extents, extent).mean(axis=0)

    def most(self, extents: Mapping[str, int], extent: int) -> float:
        """Return how many steps the block with the most steps is expected to take, if blocks that
        read integers of their own draw them from evenly spread ones."""
        samples = self._samples(extents, extent)
        worst = np.sort(samples.reshape(len(samples), -1).max(axis=1))
        draws = prod(extents[a] for a in frozenset[str]().union(*(r.axes for r in self.readings)))
        # the largest of several draws is at most the i-th of n samples with probability (i/n)^draws
        below = (np.arange(len(worst) + 1) / len(worst)) ** draws
        return float(np.sum(worst * np.diff(below)))

    def _samples(self, extents: Mapping[str, int], extent: int) -> Array:
        """Return the steps of the blocks for evenly spread integers that they read: a dimension for
        these, and then one for each of :attr:`axes`."""
        rank = len(self.axes)
        positions = {
            axis: np.arange(extents[axis]).reshape((1,) * i + (-1,) + (1,) * (rank - i - 1))
            for i, axis in enumerate(self.axes)
        }
        shape = tuple(extents[a] for a in self.axes)
        samples = []
        for read in product(*(r.spread() for r in self.readings)):
            first, end = self.range_at(positions, extent, read)
            samples.append(np.broadcast_to(end - first, shape))
        return np.stack(samples)
