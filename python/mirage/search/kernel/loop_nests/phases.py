"""The phase in which a frame computes a value; it follows from the normal form.

In a frame with one loop, a value that still depends on the loop's sub-axis is computed in the loop,
and one that has summed it is computed after the loop. A value that has summed it *and* depends on
it needs a second loop over the same axis.

In a frame with a loop over ``b`` and one over ``a`` inside each of its steps:

=====================  ======================  ================================================
depends on             has summed              lives
=====================  ======================  ================================================
``a``                                          in the inner loop
``b``                                          in the outer loop, before or after the inner one
``b``                  ``a`` with ``b``        in the outer loop, after the inner one
``a`` or ``b`` or not  ``a`` without ``b``     where it did, after a loop over ``a`` of its own
neither                ``b``                   after all loops
=====================  ======================  ================================================

A sum over ``a`` of what does not depend on ``b`` (the norm of a row) would be the same at every
step of the outer loop: it gets a loop of its own, before the nest. A value that has summed ``b``
and depends on ``a`` or ``b``, or that depends on ``a`` and on a sum over it at the same step of
``b``, has no phase.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mirage.search.algebra.atoms import (
    Fn2Atom,
    FnAtom,
    IdAtom,
    InAtom,
    MaxAtom,
    RoundAtom,
    SoFarAtom,
    SubAxis,
)
from mirage.search.algebra.normal_form import NormalForms
from mirage.search.kernel.loop_nests.frames import FrameType


class Where(enum.IntEnum):
    """The body that computes a value at each of its steps."""

    OUTSIDE = 0
    LOOP = 1
    INNER = 2


@dataclass(frozen=True)
class _State:
    """The loops that must have ended before a value can be computed."""

    loops: int = 0  # loops of the block that do not depend on the nest, one after the other
    late: bool = False  # the inner loop, at the same step of the outer one
    over: bool = False  # the outer loop of a nest

    def and_also(self, other: _State) -> _State:
        if other is _ANYWHERE or other is self:
            return self
        if self is _ANYWHERE:
            return other
        return _State(
            max(self.loops, other.loops), self.late or other.late, self.over or other.over
        )


_ANYWHERE = _State()


@dataclass
class Phases:
    """Phases of normal forms in one frame type."""

    algebra: NormalForms
    kind: FrameType
    _states: dict[int, _State] = field(default_factory=dict[int, _State])
    _where: dict[int, Where] = field(default_factory=dict[int, Where])

    def where(self, poly: int) -> Where:
        """Return the innermost body with whose step the value changes."""
        found = self._where.get(poly)
        if found is None:
            found = self._where[poly] = self._innermost(poly)
        return found

    def _innermost(self, poly: int) -> Where:
        free = self.algebra.free(poly)
        if self.kind.inner is not None and (self.kind.inner, "T") in free:
            return Where.INNER
        if self.kind.loop is not None and (self.kind.loop, "T") in free:
            return Where.LOOP
        return Where.OUTSIDE

    def ended(self, poly: int) -> int:
        """Return how many consecutive loops of the block must have ended before the value can be
        computed. A nest is the second of two loops; the first one is for sums that do not need it.
        """
        state = self._state(poly)
        return 2 if state.over else state.loops

    def late(self, poly: int) -> bool:
        """Return whether the inner loop must have ended at the same step of the outer one."""
        return self._state(poly).late

    def possible(self, poly: int) -> bool:
        """Return whether the frame has a phase for the value."""
        if self.kind.loop is None:
            return True
        state, where = self._state(poly), self.where(poly)
        if self.kind.inner is None:
            return state.loops + (where > Where.OUTSIDE) <= self.kind.passes
        if where is Where.INNER and state.late:
            return False
        return state.loops <= 1 and not (where > Where.OUTSIDE and state.over)

    def ends(self, poly: int, summed: int, axis: str) -> bool:
        """Return whether the loop over ``axis`` that sums ``poly`` is the one that the phase of the
        sum, ``summed``, requires.
        """
        before, after = self._state(poly), self._state(summed)
        if self.kind.inner is None:
            return before.loops < after.loops
        if axis == self.kind.loop:
            return self.where(poly) is Where.LOOP and after.over
        if self.within_nest(poly):
            return after.late and not before.late
        return before.loops < after.loops

    def within_nest(self, poly: int) -> bool:
        """Return whether the value changes with the step of a nest's outer loop."""
        return (self.kind.loop, "T") in self.algebra.free(poly)

    # ---- states

    def _state(self, poly: int) -> _State:
        found = self._states.get(poly)
        if found is None:
            found = _ANYWHERE
            for (atoms, bound), _ in self.algebra.polys[poly]:
                found = found.and_also(self._monomial(atoms, bound))
            self._states[poly] = found
        return found

    def _monomial(self, atoms: tuple[int, ...], bound: tuple[SubAxis, ...]) -> _State:
        states = {x: self._atom(x) for x in atoms}
        free = self.algebra.atom_free
        state = _ANYWHERE
        for inside in states.values():
            state = state.and_also(inside)
        axis = (self.kind.inner or self.kind.loop, "T")
        if axis in bound:  # factors that do not change in the loop join its sum afterwards
            summed = [x for x in atoms if axis in free[x]]
            nested = any((self.kind.loop, "T") in free[x] for x in summed)
            loops = max((states[x].loops for x in summed), default=-1) + 1
            state = state.and_also(self._sum(loops, nested))
        if self.kind.inner is not None and (self.kind.loop, "T") in bound:
            state = state.and_also(_State(over=True))
        return state

    def _sum(self, loops: int, nested: bool) -> _State:
        return _State(late=True) if nested and self.kind.inner is not None else _State(loops)

    def _atom(self, number: int) -> _State:
        match self.algebra.atoms[number]:
            case InAtom():
                return _ANYWHERE
            case FnAtom(_, arg) | SoFarAtom(arg=arg) | RoundAtom(_, arg) | IdAtom(arg):
                return self._state(arg)
            case Fn2Atom(_, a, b):
                return self._state(a).and_also(self._state(b))
            case MaxAtom(bound, arg):
                state = self._state(arg)
                if (self.kind.inner or self.kind.loop, "T") in bound:
                    state = state.and_also(self._sum(state.loops + 1, self.within_nest(arg)))
                if self.kind.inner is not None and (self.kind.loop, "T") in bound:
                    state = state.and_also(_State(over=True))
                return state
