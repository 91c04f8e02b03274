"""How the seconds of a part are shared, and about how many of them compilation takes."""

from __future__ import annotations

import os

SEARCHED = 0.5
"""The share of the time left that the search may take, so that what it finds can be verified."""
VERIFIED = 0.85
"""The same of search and verification together, so that what is verified can be compiled."""
COMPILE, COMPILE_KERNEL, COMPILE_OP = 0.6, 0.1, 0.01
"""Seconds that compilation of a program takes, and more for each kernel, and for each op that
becomes one (on two cores that do nothing else)."""
COMPILE_OWN = 0.03
"""The same for each of hundreds of different own ops, which are compiled and assembled as one."""
BUSIEST = 4.0
"""Programs that share a processor, at most, as far as estimates of times go: with more of them a
load average says less about the seconds to come."""


def busy() -> float:
    """How many programs share a processor, at most :data:`BUSIEST`; at least 1."""
    try:
        waiting = os.getloadavg()[0]
    except OSError:  # not known here
        return 1.0
    return min(BUSIEST, max(1.0, waiting / (os.cpu_count() or 1)))


def compiling(portion: float, kernels: int, own_ops: int = 0) -> float:
    """About how many seconds a program takes to compile that is such a portion of the whole, of so
    many kernels and ops that become kernels, on a machine as busy as this one."""
    return busy() * (COMPILE * portion + COMPILE_KERNEL * kernels + COMPILE_OP * own_ops)


def compiling_own_ops(kernels: int) -> float:
    """The same of a program for which nothing was found, whose ops are so many different kernels:
    rather too many seconds than too few."""
    return busy() * (COMPILE + COMPILE_OWN * kernels)
