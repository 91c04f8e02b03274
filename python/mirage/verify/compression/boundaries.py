"""Where the digits of indices begin: the coarsest boundaries that all relations between dimensions
and axes allow.

Boundaries are added until no relation requires more. None is ever removed, so the result does not
depend on the order; a relation is examined again only if one of its classes has changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from mirage.verify.compression.index_relations import Cut, Irregular, Slot

Sides = tuple[tuple[Slot, ...], tuple[Slot, ...]]


class Conflict(Irregular):
    """Two relations cut an index in incompatible ways. ``source`` is the relation that was
    examined."""

    def __init__(self, low: int, high: int, unit: int) -> None:
        super().__init__(f"cuts at multiples of {low} and of {high} in one dimension")
        self.low, self.high = low * unit, high * unit
        self.source: Sides | Cut | None = None


@dataclass(eq=False)
class IndexClass:
    """Slots that hold the same indices, ``range(size)``.

    ``boundaries`` are the products of the lower digits: index ``i`` has the top digit ``i // max``.
    The top digit is open: other classes may share it and have more indices. ``exact`` says that the
    lower digits of another index end here, so that the size is the full product of the digits.
    """

    size: int
    boundaries: set[int] = field(default_factory=lambda: {1})
    exact: bool = False

    def add(self, new: set[int], unit: int = 1) -> None:
        """Add boundaries; ``unit`` is the product of the digits below the class, for the error.
        Raises :class:`Conflict`."""
        self.boundaries |= new
        _check_chain(self.boundaries | ({self.size} if self.exact else set()), unit)


@dataclass(eq=False)
class Relation:
    """Two indices, each of the digits of some classes, that have the same boundaries below
    ``grain``, or everywhere if that is None. ``open``: indices of different lengths, which share
    their lowest digits."""

    source: Sides | Cut
    left: tuple[IndexClass, ...]
    right: tuple[IndexClass, ...]
    grain: int | None = None
    open: bool = False
    _seen: int = -1

    def start(self, grain: int | None) -> None:
        """Begin again, with another grain, and drop the boundaries of these classes."""
        self.grain, self._seen = grain, -1

    def changes(self) -> bool:
        """Give both sides the same boundaries. Return whether a class has got more of them. Raises
        :class:`Conflict`."""
        before = self._count()
        if before == self._seen:
            return False
        self._seen = before
        if self.open:
            self._share_low()
        else:
            self._refine()
        return self._count() != before

    def _count(self) -> int:
        return sum([len(c.boundaries) for c in (*self.left, *self.right)])

    def _refine(self) -> None:
        every = _suffixes(self.left) | _suffixes(self.right)
        if self.grain is not None:
            every = {b for b in every if b < self.grain} | {self.grain}
        _check_chain(every)
        for side in (self.left, self.right):
            base = 1
            for c in reversed(side):
                c.add({b // base for b in every if base < b < base * c.size}, base)
                base *= c.size

    def _share_low(self) -> None:
        """Give the whole and the part the same digits below ``grain``."""
        assert self.grain is not None
        (whole,), (part,) = self.left, self.right
        if part.size == 1:
            return
        low = {x for c in (whole, part) for x in c.boundaries if x < self.grain} | {self.grain}
        for c in (whole, part):
            c.add({x for x in low if x < c.size})


def settle(relations: Sequence[Relation]) -> None:
    """Add the boundaries that the relations require. Raises :class:`Conflict`."""
    at: Relation | None = None
    changed = True
    try:
        while changed:
            changed = False
            for at in relations:
                changed |= at.changes()
    except Conflict as conflict:
        conflict.source = at and at.source
        raise


def _suffixes(side: tuple[IndexClass, ...]) -> set[int]:
    base, result = 1, {1}
    for c in reversed(side):
        result |= {base * b for b in c.boundaries} | {base}
        base *= c.size
    return result


def _check_chain(boundaries: set[int], unit: int = 1) -> None:
    for low, high in itertools.pairwise(sorted(boundaries)):
        if high % low:
            raise Conflict(low, high, unit)
