"""Leaves candidates out where the time will not do for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf, isinf
from typing import Protocol

_STEADY = 8
"""Situations after which it is known how long each takes: the first ones are larger."""


class Measurable(Protocol):
    """What is measured of a candidate; ``cut`` says that the time was up before the end."""

    cut: bool


class Pace:
    """Compares the time that is left with what the situations took so far."""

    def __init__(self, left: Callable[[], float]) -> None:
        self.left = left
        self.expected = inf  # situations
        self._done, self._before, self._since = 0, 0, 0.0

    def keep(self, active: Sequence[Measurable], tried: int = 1) -> None:
        """To be asked after so many situations that were ``tried`` at once: cuts the last of the
        candidates that are not decided if there is no time for them."""
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
