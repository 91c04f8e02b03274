"""Logarithms: the factor ``exp(-d m)`` of a value is the summand ``-d m`` of its logarithm.

The summand must be added back, and it matters where. Scores of 1e4 have a spacing of 1e-3 in f32:
``x - (log(s) + m)`` loses the digits of ``log(s)`` that ``(x - m) - log(s)`` keeps. So ``m`` is
added back where the logarithm meets another summand, to that one, and not at all where it cancels
(in the difference of two logarithms with the same ``m``); if the logarithm is used in any other
way, it is added there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import Loop, Value
from mirage.transforms.online_max.maxima import arrange, scaled
from mirage.transforms.shifts.shifts import Align, Shift

Summands = Mapping[tuple[Shift, "Loop | None", Align], Fraction]
"""The number of times that each ``m``, or the part of it for the steps of a loop, is missing in a
value, with which it is aligned in some way."""


@dataclass
class Missing:
    """The summands that are missing in the values that replace some of the program's values.
    ``maximum`` returns ``m``, or the part of it for a step of a loop."""

    maximum: Callable[[Shift, Loop | None], Value]

    def __post_init__(self) -> None:
        self._of: dict[Value, tuple[Summands, Builder]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._of

    def note(self, value: Value, summands: Summands, b: Builder) -> None:
        """Record that ``value`` is defined where ``b`` appends, without ``summands``."""
        left = {key: power for key, power in summands.items() if power}
        if left:
            self._of[value] = (left, b)

    def restore(self, value: Value, new: Value) -> Value:
        """Return ``new``, which replaces ``value``, with all missing summands added; from now on
        ``value`` is complete."""
        summands, b = self._of.pop(value)
        return self._added(b, new, summands, BinaryFn.ADD)

    def negate(self, result: Value, x: Value) -> None:
        """Record that ``result`` is ``-x``."""
        summands, b = self._of[x]
        self.note(result, {key: -power for key, power in summands.items()}, b)

    def cancel(self, fn: BinaryFn, result: Value, x: Value, y: Value, b: Builder) -> None:
        """Record that ``result`` is the sum or difference of two values of equal shapes."""
        sign = 1 if fn is BinaryFn.ADD else -1
        found = dict(self._of[x][0])
        for key, power in self._of[y][0].items():
            found[key] = found.get(key, Fraction(0)) + sign * power
        self.note(result, found, b)

    def move(self, fn: BinaryFn, x: Value, other: Value, rank: int, b: Builder) -> Value:
        """Return ``other`` with the summands that are missing in ``x`` added or subtracted, for a
        sum or difference of the two with ``rank`` dimensions."""
        summands = self._of[x][0].items()
        wide = {(s, loop, (None,) * (rank - len(a)) + a): p for (s, loop, a), p in summands}
        return self._added(b, other, wide, fn)

    def _added(self, b: Builder, x: Value, summands: Summands, fn: BinaryFn) -> Value:
        for (shift, loop, align), power in summands.items():
            m = arrange(b, self.maximum(shift, loop), align)
            x = b.binary(fn, x, scaled(b, m, power))
        return x
