"""The rate at which an optimization proceeds while other programs use the processors, too.

A budget is stated for processors that are otherwise idle. On a busy machine, the same seconds by
the clock are fewer seconds of work, so less is found. Therefore the time for which processes wait
for a processor although one of their own is not using it does not count. Linux says how long each
process has run and waited; where this is not known, all time counts.

Nobody waits for ever: at least one of ``MOST`` seconds counts. How much of what
counted was work is known (``worked``), so that a result which was cut short is not kept as that of
its whole budget.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

MOST = 8.0
"""The most seconds by the clock for a second of the budget."""
OFTEN = 0.25
"""The least seconds between two examinations of the processes."""
FEW = 0.1
"""The share of the seconds that may pass without work before a result counts as cut short."""
LATELY = 4.0
"""The seconds over which the current rate is an average."""


class Pace:
    """The progress of the thread that creates it, and of its worker processes."""

    def __init__(self) -> None:
        self.processors = len(os.sched_getaffinity(0))
        self.rate = 1.0
        """The share of the current seconds that counts."""
        self._thread = threading.get_native_id()
        self._at = time.monotonic()
        self._lost = self._idle = self._passed = 0.0  # until then
        self._seen = self._look()

    @property
    def known(self) -> bool:
        """Whether it is known how long processes wait."""
        return bool(self._seen)

    @property
    def lost(self) -> float:
        """The seconds since the start that do not count."""
        self._look_again()
        return self._lost + (1.0 - self.rate) * (time.monotonic() - self._at)

    @property
    def worked(self) -> float:
        """The share of the seconds that counted in which processes could work: 1 unless they got so
        little of the processors that more than a tenth of these seconds was spent waiting."""
        self._look_again()
        idle = self._idle / max(self._passed - self._lost, OFTEN)
        return 1.0 if idle <= FEW else 1.0 - idle

    def _look_again(self) -> None:
        passed = time.monotonic() - self._at
        if passed < OFTEN:
            return
        self._at += passed
        before, self._seen = self._seen, self._look()
        ran = waited = 0.0
        for process, (now_ran, now_waited) in self._seen.items():
            then_ran, then_waited = before.get(process, (0.0, 0.0))
            ran += now_ran - then_ran
            waited += now_waited - then_waited
        share = worked(passed, ran, waited, self.processors)
        rate = max(1.0 / MOST, share)
        self._passed += passed
        self._lost += (1.0 - rate) * passed
        self._idle += (rate - share) * passed
        weight = min(1.0, passed / LATELY)
        self.rate += weight * (rate - self.rate)

    def _look(self) -> dict[int, tuple[float, float]]:
        """Return the seconds that each process has run and waited for a processor."""
        workers = (p.pid for p in multiprocessing.active_children())
        paths = {self._thread: f"/proc/self/task/{self._thread}"}
        paths |= {pid: f"/proc/{pid}" for pid in workers if pid is not None}
        read = ((process, times(path)) for process, path in paths.items())
        return {process: found for process, found in read if found is not None}


def times(path: str) -> tuple[float, float] | None:
    """Return the seconds that a process has run and waited for a processor; None if not known."""
    try:
        with open(os.path.join(path, "schedstat")) as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return None
    return int(ran) * 1e-9, int(waited) * 1e-9


def worked(passed: float, ran: float, waited: float, processors: int) -> float:
    """Return the share of the ``passed`` seconds that processes worked if together they ran and
    waited for so many seconds: on idle processors they would have run for this time, up to the
    number of processors."""
    wanted = min(ran + waited, passed * processors)
    return 1.0 - max(0.0, wanted - ran) / max(passed, wanted)
