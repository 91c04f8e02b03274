"""The resources that a process and its workers have used."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

PAUSE = 0.5
"""The least number of seconds between two measurements of memory."""

SHARE = 0.05
"""The share of the time that measuring may take, since a large process has many pages."""


def processor_time() -> float:
    """Return the processor time of this process and of the workers that have ended, in seconds."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


LOOKS = 5
"""How often a measurement is repeated because processes began or ended meanwhile."""


class Memory:
    """The largest memory of a ``process`` (by default this one) and all processes that it has
    started, at one time, in MiB; shared memory counts once; and the memory ``before``. Measured at
    intervals, only on Linux: elsewhere it stays 0."""

    def __init__(self, process: int | None = None) -> None:
        self.process = os.getpid() if process is None else process
        self.most = self.before = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self.before = self.most = memory_of(self.process)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = PAUSE
        while not self._done.wait(pause):
            begin = time.thread_time()
            self.most = max(self.most, memory_of(self.process))
            pause = max(PAUSE, (time.thread_time() - begin) / SHARE)


def memory_of(process: int) -> float:
    """Return the MiB of a process and all processes that it has started. Memory shared with a
    process that begins between two readings would count twice: such measurements are repeated, or
    give 0."""
    for _ in range(LOOKS):
        family = set(_family(process))
        found = sum(map(_share, family))
        if family == set(_family(process)):
            return found
    return 0.0


def _family(process: int) -> Iterator[int]:
    """Return a process and all processes that it has started."""
    yield process
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = " ".join((t / "children").read_text() for t in tasks).split()
    except OSError:  # it has ended
        return
    for child in children:
        yield from _family(int(child))


def _share(process: int) -> float:
    """Return the MiB of a process, with its share of shared memory."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024.0
    return 0.0
