"""The steps of a loop that a block takes, where they are not all of them.

Which steps they are follows from the block's position by two numbers, a first step and the one
after the last, each a sum of positions times integers, divided by an integer and rounded down: the
keys that the rows of a tile see begin and end in step with the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage.semantics.scalar import Array


@dataclass(frozen=True)
class StepNumber:
    """``floor((sum of factor * position + constant) / divisor)`` of positions along grid axes."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0
    divisor: int = 1

    def at(self, positions: Mapping[str, Array]) -> Array:
        """The numbers at positions, whose arrays broadcast."""
        total = np.asarray(self.constant, dtype=np.int64)
        for axis, factor in self.terms:
            total = total + factor * positions[axis]
        return np.asarray(total // self.divisor)

    def __str__(self) -> str:
        parts = [axis if n == 1 else f"{n} {axis}" for axis, n in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if self.divisor == 1 else f"({text}) / {self.divisor}"


@dataclass(frozen=True)
class Steps:
    """The steps from ``first`` on that are below ``end``.

    The first one is moved into ``[0, extent - 1]``, the end into ``[first + 1, extent]``: each
    block takes at least one step.
    """

    first: StepNumber
    end: StepNumber

    @property
    def axes(self) -> tuple[str, ...]:
        """The grid axes on which they depend, in the order of their first use."""
        terms = (*self.first.terms, *self.end.terms)
        return tuple(dict.fromkeys(axis for axis, _ in terms))

    def range_at(self, positions: Mapping[str, Array], extent: int) -> tuple[Array, Array]:
        """The first step, and the one after the last, of a loop of ``extent`` steps."""
        first = np.clip(self.first.at(positions), 0, extent - 1)
        return first, np.clip(self.end.at(positions), first + 1, extent)

    def counts(self, extents: Mapping[str, int], extent: int) -> Array:
        """How many steps the blocks take, with a dimension for each of :attr:`axes`."""
        rank = len(self.axes)
        positions = {
            axis: np.arange(extents[axis]).reshape((1,) * i + (-1,) + (1,) * (rank - i - 1))
            for i, axis in enumerate(self.axes)
        }
        first, end = self.range_at(positions, extent)
        return np.broadcast_to(end - first, tuple(extents[a] for a in self.axes))
