"""Processor time for attempts at a proof.

Tests take a time that is known in advance. The time of a proof is not, so each attempt gets a share
of the remaining time. Attempts that are cut off are recorded as evidence of why nothing was shown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.verdict import Evidence

Found = TypeVar("Found")

SECONDS, SECONDS_OF_OP, SHORT = 1.6, 0.045, 20
"""Seconds for two short programs, and for each op that a longer one has more than that: with the
tests, which take their own time, short programs are verified in two seconds."""
_SHARE = 0.5


class Budget:
    """A number of seconds from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self._until = time.process_time() + seconds
        self._cut: dict[str, None] = {}

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._until - time.process_time())

    @property
    def share(self) -> float:
        """Return the seconds for one attempt of several."""
        return _SHARE * self.left

    def unlimited(self, run: Callable[[], Found]) -> Found:
        """Return the result of ``run``; its time is known in advance and does not count."""
        start = time.process_time()
        found = run()
        self._until += time.process_time() - start
        return found

    def attempt(self, name: str, run: Callable[[], Found], *, last: bool = False) -> Found | None:
        """Return the result of ``run``; None if its share of the time ran out. The ``last`` attempt
        gets all of the remaining time."""
        if math.isinf(self.seconds):
            return run()
        try:
            with time_limit(math.inf, self.left if last else self.share):
                return run()
        except OutOfTime:
            self._cut[name] = None
            return None

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The attempts that were cut off, as evidence."""
        if not self._cut:
            return ()
        text = f"no result within {self.seconds:g} s of processor time: {', '.join(self._cut)}"
        return (Evidence("time for proofs", None, text),)


def usual_seconds(first: KernelGraph, second: KernelGraph) -> float:
    """Return the seconds for two programs if the caller sets no limit; programs with kernels have
    no limit."""
    if any(any(launches(g.ops)) for g in (first, second)):
        return math.inf
    ops = max(len(decompose(g).ops) for g in (first, second))
    return max(SECONDS, SECONDS_OF_OP * (ops - SHORT))
