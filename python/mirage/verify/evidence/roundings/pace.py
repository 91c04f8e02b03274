"""Drops candidates if there is not enough time for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf, isinf
from typing import Protocol

_STEADY = 8
"""The number of situations after which the time per situation is known: the first ones are
larger."""


class Measurable(Protocol):
    """The measurement of a candidate; ``cut`` says that the time ran out before its end."""

    cut: bool


class Pace:
    """Compares the remaining time with the time that the situations took so far."""

    def __init__(self, left: Callable[[], float]) -> None:
        self.left = left
        self.expected = inf  # situations
        self._done, self._before, self._since = 0, 0, 0.0

    def keep(self, active: Sequence[Measurable], tried: int = 1) -> None:
        """Cut the last of the undecided candidates if there is no time for them. Call this after
        each group of situations; ``tried`` is the number in the group."""
        if isinf(left := self.left()):
            return
        self._done += tried
        now = time.perf_counter()
        needed = 0.0
        if self._done >= _STEADY and not self._before:
            self._before, self._since = self._done, now
        elif self._before and not isinf(self.expected):
            each = (now - self._since) / (self._done - self._before)
            needed = each * max(0.0, self.expected - self._done)
        rest = list(active)
        while rest and (left <= 0.0 or (needed > left and len(rest) > 1)):
            # the reference takes about as long as two candidates
            needed *= (len(rest) + 1) / (len(rest) + 2)
            rest.pop().cut = True
