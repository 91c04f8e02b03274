"""An end for calculations whose length nobody knows before."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class OutOfTime(Exception):
    """A calculation took longer than it was given."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raises :class:`OutOfTime` inside of the ``with`` block once ``seconds`` have passed.

    By a timer's signal, which only the main thread of a process can get (workers of process pools
    run in theirs); elsewhere there is no limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or math.isinf(seconds) or not hasattr(signal, "setitimer"):
        yield
        return
    if seconds <= 0.0:
        raise OutOfTime

    def end(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
