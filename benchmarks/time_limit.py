"""A limit on the time that preparing something may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeoutError` in the body once it has taken so many seconds; 0 is no limit.
    Only the main thread can do this. Code that does not return to Python ends late."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
