"""Processor time for attempts at a proof.

Tests take the time that they take; it is known in advance. What a proof takes is not, so each
attempt has a share of what is left, and what was cut off is noted, as evidence of why nothing was
shown.
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

SECONDS, SECONDS_OF_OP = 2.0, 0.05
"""For two short programs, and for each op of a longer one."""
_SHARE = 0.5


class Budget:
    """So many seconds from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self._until = time.process_time() + seconds
        self._cut: dict[str, None] = {}

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self._until - time.process_time())

    @property
    def share(self) -> float:
        """The seconds for one attempt of several."""
        return _SHARE * self.left

    def attempt(self, name: str, run: Callable[[], Found], *, last: bool = False) -> Found | None:
        """What ``run`` finds; None where its share of the time was up, all of it for the ``last``
        attempt."""
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
        """Which attempts were cut off."""
        if not self._cut:
            return ()
        text = f"no result within {self.seconds:g} s of processor time: {', '.join(self._cut)}"
        return (Evidence("time for proofs", None, text),)


def usual_seconds(first: KernelGraph, second: KernelGraph) -> float:
    """Seconds for two programs of which nobody says how long it may take: those with kernels may
    take any time."""
    if any(any(launches(g.ops)) for g in (first, second)):
        return math.inf
    ops = max(len(decompose(g).ops) for g in (first, second))
    return max(SECONDS, SECONDS_OF_OP * ops)
