"""The move that takes a value under another name of one of its axes.

A rotary embedding needs a product twice: for each row, and for the row that is half a head away.
These are two values, because their axes differ. But a block that has both axes as a whole has the
same tile for both, and computes it once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from mirage.cost.accountant import Accountant
from mirage.search.algebra.normal_form import renamed
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.moves import Above, Accounts, Accumulate, Body, Edge, Num
from mirage.semantics.ugraph import Value


@dataclass(frozen=True)
class Rename(Edge):
    """A value that exists with the axis ``old`` in place of ``new``; both have ``extent``
    elements."""

    old: str
    new: str
    extent: int

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.old, self.new)

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        whole = (at.elements((axis,)) == self.extent for axis in (self.old, self.new))
        return np.logical_and(*whole)

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        row, col = (self.old if axis == self.new else axis for axis in (row, col))
        return body.get(self.children[0], row, col)

    def combine(self, above: Above) -> Value:
        raise self.not_above()


def add_other_names(derivations: Derivations) -> None:
    """Add the moves for sums of a loop, which cost more than other values, where one exists under
    another name. A move leads to a goal that comes before in the order, so the graph stays
    acyclic."""
    pairs = _pairs(derivations)
    place = {goal: number for number, goal in enumerate(derivations.order)} if pairs else {}
    for goal in list(place):
        if any(isinstance(edge, Accumulate) for edge in derivations.edges[goal]):
            found = tuple(_moves(derivations, goal, pairs, place))
            derivations.edges[goal] += found


def _pairs(derivations: Derivations) -> list[tuple[str, str]]:
    """Return the pairs of axes of one extent that no frame divides into steps or parts."""
    sizes, levels = derivations.algebra.sizes, derivations.algebra.levels
    undivided = [axis for axis, size in sizes.items() if size > 1 and levels(axis) == ("L",)]
    return [(a, b) for a, b in permutations(undivided, 2) if sizes[a] == sizes[b]]


def _moves(
    derivations: Derivations, goal: Goal, pairs: list[tuple[str, str]], place: dict[Goal, int]
) -> Iterator[Rename]:
    algebra, (poly, stage) = derivations.algebra, goal
    free = {axis for axis, _ in algebra.free(poly)}
    names = free | {axis for axis, _ in algebra.bound(poly)}
    for old, new in pairs:
        if new in free and old not in names:
            other = derivations.canonical((renamed(algebra, poly, new, old), stage))
            if place.get(other, len(place)) < place[goal]:
                yield Rename(goal, (other,), old, new, algebra.sizes[new])
