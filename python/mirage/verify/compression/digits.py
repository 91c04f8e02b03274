"""Index structure shared by two programs: every dimension and axis written as mixed-radix digits.

A tile map cuts a dimension of 4096 elements into, say, 8 parts x 4 steps x 128 local elements; a
reshape cuts or joins dimensions likewise. All of these are statements about *digits* of indices.
This module finds, for the two programs together, the coarsest digits such that every dimension,
tile, grid axis and loop axis is a sequence of them, and which digits must be the same one because
both programs meet in inputs, outputs and ops. Where a size does not divide, the last part is cut
short; the positions where that happens are recorded as *cuts* of the digits.

With ``sever``, a tiling, reshape or slice that fits no common digits shares only the digits below
the largest common block. The digits above are *pinned* (every index is a cell), so they need no
relation.

:class:`Irregular` says that there is no such structure (tilings of 96 and 64 over the same
dimension, slices at odd places).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import gcd, prod

from mirage.semantics.ugraph import KernelGraph, Launch, Value
from mirage.verify.compression.boundaries import Conflict, IndexClass, Relation, Sides, settle
from mirage.verify.compression.index_relations import Cut, Irregular, Slot, Slots, Union

_Name = tuple[Hashable, int]  # a digit before joining: its class, and the product of the lower ones
_MAX_PINNED = 16
_MAX_SEVERED = 512
_MAX_SLICED = 1 << 13


@dataclass(frozen=True)
class Digit:
    """A digit: the indices ``range(radix)``, cut into segments. ``ordered`` says that sums may
    depend on the order of its steps.
    """

    radix: int
    cuts: frozenset[int]
    pinned: bool
    ordered: bool

    @property
    def segments(self) -> tuple[int, ...]:
        """The lengths of the segments, from index 0 on."""
        bounds = sorted({0, self.radix} | {c for c in self.cuts if 0 < c < self.radix})
        return tuple(end - start for start, end in itertools.pairwise(bounds))


class Structure:
    """The digits of all dimensions and axes of several graphs that have the same signature and only
    primitive ops.
    """

    def __init__(self, graphs: Sequence[KernelGraph], *, sever: bool = False) -> None:
        self._most_pinned = _MAX_SLICED if sever else _MAX_PINNED
        self._slots = Slots()
        for graph in graphs:
            self._slots.add(graph)
        first = graphs[0]
        for other in graphs[1:]:
            for a, b in (
                *zip(first.inputs, other.inputs, strict=True),
                *zip(first.outputs, other.outputs, strict=True),
            ):
                self._slots.same_shape(a, b)
        self._roots = {slot: self._slots.union.find(slot) for slot in self._slots.sizes}
        self._found: dict[Slot, tuple[Hashable, ...]] = {}
        self._relations: list[Sides] = [
            (t.parts, (t.whole,)) for t in self._slots.tilings if t.whole is not None
        ]
        self._relations += self._slots.joins
        self._heads: list[Sides] = [
            ((c.whole,), (c.part,)) for c in self._slots.cuts if c.offset == 0
        ]
        self._relations += self._heads
        self._grains: dict[Sides | Cut, int] = {}  # the grains of the relations that are severed
        self._find_classes()
        related = [*map(self._related, self._relations)]
        while not self._solve(related, sever):
            for c in self._classes.values():
                c.boundaries = {1}

    @property
    def severed(self) -> bool:
        """Whether there are incompatible cuts, or more cuts than usual."""
        return bool(self._grains) or any(
            self._class(c.whole).size > _MAX_PINNED * self._grain(c) for c in self._slots.cuts
            if c.offset > 0
        )  # fmt: skip

    def slot(self, value: Value, dim: int) -> Slot:
        """Return the slot of a dimension of a tensor or tile."""
        return self._slots.slot(value, dim)

    def axis(self, launch: Launch, name: str) -> Slot:
        """Return the slot of a grid or loop axis."""
        return self._slots.axis(launch, name)

    # ---- solving ---------------------------------------------------------------------------------

    def _find_classes(self) -> None:
        self._classes: dict[Hashable, IndexClass] = {}
        for slot, size in self._slots.sizes.items():
            known = self._classes.setdefault(self._roots[slot], IndexClass(size))
            if known.size != size:
                raise Irregular(f"sizes {known.size} and {size} meet")
        for sides in (*self._relations, *((t.parts, ()) for t in self._slots.tilings)):
            for side in sides:
                for slot in side[1:]:
                    self._class(slot).exact = True

    def _class(self, slot: Slot) -> IndexClass:
        return self._classes[self._roots[slot]]

    def _solve(self, related: Sequence[Relation], sever: bool) -> bool:
        """Find the digits. Return False if a relation had to be severed, so that the caller must
        start again."""
        shifted = [(c, self._grain(c)) for c in self._slots.cuts if c.offset > 0]
        try:
            for r in related:
                r.start(self._grains.get(r.source))
            settle([*related, *(self._sliced(*c) for c in shifted)])
        except Conflict as conflict:
            if not sever:
                raise
            self._sever(conflict)
            return False
        try:
            self._name_digits(shifted)
        except Irregular:
            if sever and self._sever_heads():
                return False
            raise
        return True

    def _related(self, sides: Sides) -> Relation:
        left, right = (tuple(map(self._class, side)) for side in sides)
        return Relation(sides, left, right)

    def _sliced(self, cut: Cut, grain: int) -> Relation:
        whole, part = self._class(cut.whole), self._class(cut.part)
        return Relation(cut, (whole,), (part,), grain, open=True)

    def _sever_heads(self) -> bool:
        """Sever one slice that starts at index 0. Such a slice shares all of its digits with the
        whole. If this contradicts other relations, the two share only the digits below a block that
        divides both sizes. Return False if no such slice is left.
        """
        found = False
        for sides in self._heads:
            whole, part = (self._class(slot).size for (slot,) in sides)
            grain = gcd(whole, part)
            if whole != part and sides not in self._grains and whole <= _MAX_SLICED * grain:
                self._grains[sides] = grain
                found = True
        return found

    def _sever(self, reason: Conflict) -> None:
        """Keep only the part of a relation below the largest block that none of its cuts splits.
        The digits above it are pinned, so their relation does not matter.
        """
        relation = reason.source
        assert relation is not None
        if isinstance(relation, Cut):
            before, sides = self._grain(relation), ((relation.whole,), (relation.part,))
            limit = _MAX_SLICED
        else:
            before, sides, limit = self._grains.get(relation, 0), relation, _MAX_SEVERED
        grain = gcd(reason.low, reason.high, before)
        most = max(prod(self._class(s).size for s in side) for side in sides)
        if grain == before or most > limit * grain:
            raise reason
        self._grains[relation] = grain

    def _grain(self, cut: Cut) -> int:
        """Return the size of the largest block that the slice does not split."""
        if cut in self._grains:
            return self._grains[cut]
        part = self._class(cut.part).size
        if part == 1:
            return 1
        whole, grain = self._class(cut.whole).size, gcd(cut.offset, part)
        if whole > self._most_pinned * grain:
            grain = cut.offset  # its last block may be cut short, like that of any dimension
        if whole > self._most_pinned * grain:
            raise Irregular(f"a slice of a dimension of {whole} starts at a multiple of {grain}")
        return grain

    # ---- digits ----------------------------------------------------------------------------------

    def _name_digits(self, shifted: list[tuple[Cut, int]]) -> None:
        self._digit_sets = Union()
        self._names: dict[Hashable, tuple[_Name, ...]] = {
            root: tuple((root, b) for b in sorted(c.boundaries, reverse=True) if b < c.size)
            for root, c in self._classes.items()
        }
        pinned: set[Hashable] = set()
        for sides in self._relations:
            grain = self._grains.get(sides)
            low = [self._low(side, grain) for side in sides]
            # From the low end: the side that reaches less far has fewer digits.
            for x, y in zip(*low, strict=False):
                self._digit_sets.join(x, y)
            if grain is not None:
                for side, shared in zip(sides, low, strict=True):
                    pinned.update({*self._reversed(side)} - {*shared})
        for cut, grain in shifted:
            if self._class(cut.part).size == 1:
                continue
            whole, part = (self._split(s, grain) for s in (cut.whole, cut.part))
            # From the low end: a part shorter than a block reaches less far.
            for x, y in zip(whole[1][::-1], part[1][::-1], strict=False):
                self._digit_sets.join(x, y)
            pinned.update(whole[0], part[0])
        self._find_radices()
        for t in self._slots.tilings:
            self._cut_at([d for s in t.parts for d in self._digits_of(s)], t.size)
        for slot in self._slots.sizes:
            self._cut_at(list(self._digits_of(slot)), self.size(slot))
        for cut in self._slots.cuts:
            for end in (cut.offset, cut.offset + self.size(cut.part)):
                self._cut_at(list(self._digits_of(cut.whole)), end)
        for slot in self._slots.last:
            self._cut_at(list(self._digits_of(slot)), self.size(slot) - 1)
        pinned.update(d for slot in self._slots.in_order for d in self._upper(slot))
        fixed = {self._digit_sets.find(d) for d in pinned}
        ordered = {
            self._digit_sets.find(d) for s in self._slots.in_order for d in self._digits_of(s)
        }
        self.digits: dict[Hashable, Digit] = {
            d: Digit(r, frozenset(self._positions.get(d, ())), d in fixed, d in ordered)
            for d, r in self._radices.items()
        }

    def _upper(self, slot: Slot) -> list[_Name]:
        """Return all digits of a loop axis except the lowest. If the order of steps matters, equal
        steps that are not adjacent may contribute differently.
        """
        upper = [d for d in self._digits_of(slot) if d[1] > 1]
        for d in upper:
            radix = self._radices[self._digit_sets.find(d)]
            if radix > _MAX_PINNED:
                raise Irregular(f"sums depend on the order of {radix} groups of steps")
        return upper

    def _find_radices(self) -> None:
        self._radices: dict[Hashable, int] = {}
        exact: dict[Hashable, int] = {}
        for root, c in self._classes.items():
            bounds = [b for b in sorted(c.boundaries) if b < c.size]
            for low, high in itertools.zip_longest(bounds, bounds[1:]):
                digit = self._digit_sets.find((root, low))
                radix = -(-c.size // low) if high is None else high // low
                known = exact.setdefault(digit, radix) if high or c.exact else radix
                if known != radix:
                    raise Irregular(f"digits of radix {known} and {radix} meet")
                self._radices[digit] = max(radix, self._radices.get(digit, 1))
        for digit, radix in exact.items():
            if self._radices[digit] != radix:
                raise Irregular(f"digits of radix {radix} and {self._radices[digit]} meet")
        self._positions: dict[Hashable, set[int]] = {}

    def _cut_at(self, names: Sequence[_Name], position: int) -> None:
        """Cut the digits so that the indices below ``position`` are whole cells."""
        digits = [self._digit_sets.find(d) for d in names]
        base = prod(self._radices[d] for d in digits)
        rest = position
        if not 0 < rest < base:
            return
        for digit in digits:
            base //= self._radices[digit]
            value, rest = divmod(rest, base)
            self._positions.setdefault(digit, set()).add(value)
            if rest == 0:
                return
            self._positions[digit].add(value + 1)

    def _digits_of(self, slot: Slot) -> tuple[_Name, ...]:
        return self._names[self._roots[slot]]

    def _reversed(self, slots: tuple[Slot, ...]) -> list[_Name]:
        return [d for s in slots for d in self._digits_of(s)][::-1]

    def _low(self, slots: tuple[Slot, ...], grain: int | None) -> list[_Name]:
        """Return the digits of a side, from the lowest up to ``grain``."""
        if grain is None:
            return self._reversed(slots)
        result: list[_Name] = []
        base = 1
        for slot in reversed(slots):
            result += [d for d in reversed(self._digits_of(slot)) if base * d[1] < grain]
            base *= self._class(slot).size
        return result

    def _split(self, slot: Slot, grain: int) -> tuple[list[_Name], list[_Name]]:
        """Split the digits into those at and above ``grain`` and those below."""
        names = self._digits_of(slot)
        return [n for n in names if n[1] >= grain], [n for n in names if n[1] < grain]

    # ---- results ---------------------------------------------------------------------------------

    def digits_of(self, slot: Slot) -> tuple[Hashable, ...]:
        """Return the keys (into :attr:`digits`) of a slot's digits, most significant first."""
        found = self._found.get(slot)
        if found is None:
            found = tuple(self._digit_sets.find(d) for d in self._digits_of(slot))
            self._found[slot] = found
        return found

    def size(self, slot: Slot) -> int:
        """Return the real size of a slot."""
        return self._class(slot).size
