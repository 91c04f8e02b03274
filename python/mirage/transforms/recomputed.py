"""Exponentials that are computed again: the maximum that was taken the first time serves.

A softmax in two passes sums ``exp(x)`` in one loop and computes ``exp(x)`` again in the next one,
to divide it by the sum. If each pass took a maximum of its own, the factors would not cancel. They
are the same exponentials, however, and the maximum over the first pass bounds them in the second
one too: all of its elements have been seen.

Which maximum is legal is a matter of algebra and does not depend on this (any ``m`` is legal if the
results are of degree 0). That it is large enough follows from the expressions of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirage.semantics.ugraph import Loop, Unary
from mirage.transforms.expressions import Expression, Expressions
from mirage.transforms.facts import ShiftedExp
from mirage.transforms.shifts import Shift


@dataclass
class Sharing:
    """Which exponentials of a program took an earlier one's maximum, and which must not try to."""

    separate: set[Unary]
    shared: set[Unary]


@dataclass(frozen=True)
class _First:
    shift: Shift
    argument: Expression
    loops: tuple[Loop, ...]


class Recomputed:
    """The exponentials of a launch so far."""

    def __init__(
        self, expressions: Expressions, extents: Mapping[str, int], sharing: Sharing
    ) -> None:
        self.expressions = expressions
        self.extents = extents
        self.sharing = sharing
        self.outside: dict[Shift, Shift] = {}  # what a shift is after its loop
        self._known: dict[int, list[_First]] = {}

    def add(self, exp: Unary, shift: Shift, loops: Sequence[Loop]) -> None:
        """An exponential with a maximum of its own."""
        argument = self.expressions[exp.operands[0]]
        self._known.setdefault(argument.key, []).append(_First(shift, argument, tuple(loops)))

    def find(
        self, exp: Unary, loops: Sequence[Loop], groups: Mapping[Shift, Shift]
    ) -> ShiftedExp | None:
        """An earlier maximum over all elements that ``exp``, inside of ``loops``, will see.
        ``groups`` says which shift has become a part of which.
        """
        if exp in self.sharing.separate:
            return None
        argument = self.expressions[exp.operands[0]]
        for first in self._known.get(argument.key, ()):
            found = self._serves(first, argument, loops, groups)
            if found is not None:
                for s in self._chain(first.shift, found.shift):
                    s.exps |= {exp}
                self.sharing.shared.add(exp)
                return found
        return None

    def _serves(
        self,
        first: _First,
        argument: Expression,
        loops: Sequence[Loop],
        groups: Mapping[Shift, Shift],
    ) -> ShiftedExp | None:
        finished = frozenset(loop.axis.name for loop in first.loops if loop not in loops)
        shift = first.shift
        align: list[int | None] = list(range(len(argument.cuts)))
        covered: list[int] = []
        for d, (then, now) in enumerate(zip(first.argument.cuts, argument.cuts, strict=True)):
            if then == now and finished.isdisjoint(then.axes):
                continue
            if not then.covers(now, self.extents, finished):
                return None
            covered.append(d)
        while shift.loop is not None and shift.loop not in loops:
            if shift not in self.outside or not shift.running:
                return None  # nothing that the loop returns has seen all of its steps
            shift = self.outside[shift]
        while shift in groups and (groups[shift].loop is None or groups[shift].loop in loops):
            merged = groups[shift]
            dims = merged.dims_of(shift)
            align = [None if a is None or a not in dims else dims.index(a) for a in align]
            shift = merged
        for d in covered:
            if (a := align[d]) is not None:
                shift.constant.add(a)
        return ShiftedExp(shift, tuple(align), again=True)

    def _chain(self, first: Shift, last: Shift) -> list[Shift]:
        chain = [first]
        while chain[-1] in self.outside and chain[-1] is not last:
            chain.append(self.outside[chain[-1]])
        return chain if chain[-1] is last else [*chain, last]
