"""The distribution of a part's seconds, and an estimate of the seconds that compilation takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage.pipeline.deadline import Deadline

SEARCHED = 0.5
"""The share of the time left that the search may take, so that its results can be verified."""
VERIFIED = 0.85
"""The share of the time left that search and verification together may take, so that the results
can be compiled."""
COMPILE, COMPILE_KERNEL, COMPILE_OP = 0.6, 0.1, 0.01
"""The seconds that compiling a program takes, and the additional seconds for each kernel and for
each op that becomes one (on two otherwise idle cores)."""
COMPILE_OWN = 0.03
"""The seconds for each of hundreds of different own ops, which are compiled and assembled
together."""
BUSIEST = 4.0
"""The most programs per processor that estimates of times assume; a higher load average says less
about the coming seconds."""


def busy(deadline: Deadline) -> float:
    """Return the seconds that a second of work takes while other programs use the processors: at
    the pace at which ``deadline`` comes closer, so that what there is time for is the same on busy
    and on idle machines. If it is not known, this is the number of programs that share a processor:
    at least 1, at most :data:`BUSIEST`."""
    slowed = deadline.slowed
    if slowed is not None:
        return slowed
    try:
        waiting = os.getloadavg()[0]
    except OSError:  # unknown on this system
        return 1.0
    return min(BUSIEST, max(1.0, waiting / (os.cpu_count() or 1)))


def compiling(deadline: Deadline, portion: float, kernels: int, own_ops: int = 0) -> float:
    """Estimate the seconds to compile a program that is a ``portion`` of the whole and has this
    number of kernels and of ops that become kernels, on a machine as busy as it is now."""
    return busy(deadline) * (COMPILE * portion + COMPILE_KERNEL * kernels + COMPILE_OP * own_ops)


def compiling_own_ops(deadline: Deadline, kernels: int) -> float:
    """Estimate the seconds to compile a program that keeps its own ops, which are this number of
    different kernels. The estimate is rather too high than too low."""
    return busy(deadline) * (COMPILE + COMPILE_OWN * kernels)


def shares_of(sizes: Sequence[float], times: Sequence[float]) -> list[float]:
    """Return the shares of the time that parts get one after the other, each of the time that is
    left at its turn. Half of the time is for their ``sizes``, which say how long a search takes,
    and half for the predicted ``times``, which say how much may be gained; all of it is for their
    sizes if no times are known."""
    wanted = [size / sum(sizes) for size in sizes]
    if sum(times):
        wanted = [(w + t / sum(times)) / 2 for w, t in zip(wanted, times, strict=True)]
    return [w / sum(wanted[place:]) for place, w in enumerate(wanted)]
