"""Estimates, for many sizes at once, whether warpgroups have enough registers for products that
depend on each other. :class:`mirage.cost.registers.RegisterEstimator` does so for a written launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.cost.registers import BESIDE_SUMS, NO_TILES, limit_of
from mirage.search.kernel.derivations.moves import Accumulate, Edge, Goal, Product
from mirage.semantics.ugraph import Schedule

Num = Any

HALF = 0.5
"""The registers of an element of a factor in 16 bits."""


@dataclass(frozen=True)
class Held:
    """The f32 values that the threads of a block hold, in registers of all of them together."""

    summed: Num
    """The sums of the loop."""
    between: Num
    """The result of a product and the factor of another product that is computed from it, where
    both together are the largest."""
    factor: Num
    """The largest factor that is computed in the loop."""


def held_between(
    edges: Sequence[Edge],
    elements: Callable[[Goal], Num],
    is_computed: Callable[[Goal], bool],
    summed: Num,
) -> Held:
    """Return the values that a loop with these ops, operands first, holds. ``elements`` returns the
    number of elements of a value's tile; ``is_computed`` says whether a value is computed at each
    step."""
    made_of: dict[Goal, Num] = {}  # the largest product that a value is computed from
    between: Num = 0.0
    factor: Num = 0.0
    for edge in edges:
        if isinstance(edge, Product):
            for child in filter(is_computed, edge.children):
                own = HALF * elements(child)
                between = np.maximum(between, made_of.get(child, 0.0) + own)
                factor = np.maximum(factor, own)
            made_of[edge.goal] = elements(edge.goal)
        elif not isinstance(edge, Accumulate):
            for child in edge.children:
                own = made_of.get(edge.goal, 0.0)
                made_of[edge.goal] = np.maximum(own, made_of.get(child, 0.0))
    return Held(summed, between, factor)


def fits_and_serial(held: Held, warps: Num, stages: Num, registers_sm: int) -> tuple[Num, Num]:
    """Return for each size whether registers suffice
    (:func:`mirage.cost.registers.check_registers`), and whether groups of warps do not take turns
    (:meth:`mirage.cost.registers.RegisterEstimator.takes_turns`)."""
    limit = np.zeros(len(warps))
    for count in np.flatnonzero(np.bincount(warps)).tolist():
        limit[warps == count] = limit_of(Schedule(count, 2, True), registers_sm)
    threads = 32.0 * warps
    summed, chained = held.summed / threads, (held.summed + held.between) / threads
    fits = (chained <= limit) & (summed + BESIDE_SUMS <= limit)
    turns = (stages > 1) & (chained + held.factor / threads <= limit - NO_TILES)
    return fits, ~turns
