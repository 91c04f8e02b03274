"""Exponentials that are computed again use the maximum of the first time.

A softmax in two passes sums ``exp(x)`` in one loop and computes ``exp(x)`` again in the next one,
or in another kernel, to divide it by the sum. If each pass took its own maximum, the factors would
not cancel. But they are the same exponentials, and the maximum over the first pass also bounds them
in the second pass: it covers all of their elements.

Which maxima are legal is a matter of algebra and does not depend on this (any ``m`` is legal if the
results are of degree 0). That the maximum is large enough follows from the expressions of the
arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from mirage.semantics.ugraph import Loop, Unary
from mirage.transforms.shifts.expressions import Expression, Expressions, Keys
from mirage.transforms.shifts.facts import ShiftedExp
from mirage.transforms.shifts.loaded_partials import Loading
from mirage.transforms.shifts.shifts import Shift

ATTEMPTS = 2
"""The number of attempts to share the maximum of another exponential: first any, then one of the
same elements."""


@dataclass
class Sharing:
    """The exponentials of a program that use an earlier one's maximum, and the number of failed
    attempts: after the first failure only a maximum of the same elements is shared, then none.
    """

    shared: set[Unary] = field(default_factory=set[Unary])
    failures: Counter[Unary] = field(default_factory=Counter[Unary])
    keys: Keys = field(default_factory=dict[tuple[object, ...], int])

    def give_up(self, exps: Set[Unary]) -> bool:
        """Note that ``exps`` prevent the rewrite; return whether it can be tried with less
        sharing."""
        again = [e for e in exps if e in self.shared and self.failures[e] < ATTEMPTS]
        self.failures.update(again)
        return bool(again)


@dataclass(frozen=True)
class First:
    """An exponential with a maximum of its own, and the loops around it."""

    shift: Shift
    argument: Expression
    loops: tuple[Loop, ...]


class Recomputed:
    """The exponentials of a launch so far."""

    def __init__(
        self,
        expressions: Expressions,
        extents: Mapping[str, int],
        loading: Loading,
        sharing: Sharing,
    ) -> None:
        self.expressions = expressions
        self.extents = extents
        self.loading = loading
        self.sharing = sharing
        self.outside: dict[Shift, Shift] = {}  # the shift that replaces a shift after its loop
        self.firsts: dict[Shift, First] = {}

    def add(self, exp: Unary, shift: Shift, loops: Sequence[Loop]) -> None:
        """Add an exponential with a maximum of its own."""
        argument = self.expressions[exp.operands[0]]
        if not argument.pending:
            self.firsts[shift] = First(shift, argument, tuple(loops))

    def find(self, exp: Unary, loops: Sequence[Loop]) -> ShiftedExp | None:
        """Return an earlier maximum over all elements that ``exp``, inside of ``loops``, will
        cover."""
        failures = self.sharing.failures[exp]
        argument = self.expressions[exp.operands[0]]
        if argument.pending or failures >= ATTEMPTS:
            return None
        found = None if failures else self._loaded(argument)
        for first in self.firsts.values():
            if found is None and first.argument.key == argument.key:
                found = self._serves(first, argument, loops, exact=failures > 0)
        if found is not None:
            for s in self._sources(found.shift):
                s.exps |= {exp}
            self.sharing.shared.add(exp)
        return found

    def _serves(
        self, first: First, argument: Expression, loops: Sequence[Loop], *, exact: bool
    ) -> ShiftedExp | None:
        """Return the maximum of an exponential of this launch if it covers all elements and, if it
        must be ``exact``, no others; otherwise None.
        """
        finished = frozenset(loop.axis.name for loop in first.loops if loop not in loops)
        shift = first.shift
        covered: set[int] = set()  # axes along which the maximum also covers other elements
        for axis, (then, now) in enumerate(zip(first.argument.cuts, argument.cuts, strict=True)):
            if then == now and finished.isdisjoint(then.axes):
                continue
            if exact or not then.covers(now, self.extents, finished):
                return None
            covered.add(axis)
        while shift.loop is not None and shift.loop not in loops:
            if shift not in self.outside or not shift.running:
                return None  # nothing that the loop returns has seen all of its steps
            shift = self.outside[shift]
        axes = first.argument.dims
        for d, axis in enumerate(axes):
            if axis is None or axis in covered:
                shift.constant.add(d)
        align = tuple(
            None if axis is None or axis in covered or axis not in axes else axes.index(axis)
            for axis in argument.dims
        )
        return ShiftedExp(shift, align, again=True, partial=bool(covered))

    def _loaded(self, argument: Expression) -> ShiftedExp | None:
        """Return the maximum that another launch has stored, if this launch reads the partial
        results that belong to it.
        """
        for tensor in self.loading.tensors():
            along = tensor.seen.get(argument.key)
            if along is None:
                continue
            cuts = {t: argument.cuts[axis] for axis, t in enumerate(along) if t is not None}
            if not all(self.loading.grid.issuperset(cut.axes) for cut in cuts.values()):
                continue
            rank = range(len(tensor.shape))
            tile_map = tuple(cuts[t].axes if t in cuts else () for t in rank)
            tile = tuple(cuts[t].tile if t in cuts else tensor.shape[t] for t in rank)
            shift = self.loading.before_loops(tensor, tile_map, tile)
            if shift is None:
                continue
            shift.constant.update(t for t in rank if t not in cuts)
            align = tuple(None if axis is None else along[axis] for axis in argument.dims)
            return ShiftedExp(shift, align, again=True, partial=None in along)
        return None

    def _sources(self, shift: Shift) -> list[Shift]:
        """Return the shift and all shifts of which it is the maximum."""
        inner = () if shift.inner is None else (shift.inner,)
        return [shift, *(s for part in (*inner, *shift.leaves) for s in self._sources(part))]
