"""A limit on the time of a block of code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Late(BaseException):
    """A block of code took longer than :func:`at_most` allows. Not an :class:`Exception`, which the
    slow code might catch."""


@contextmanager
def at_most(seconds: float, *, processor: bool = False) -> Iterator[None]:
    """Raise :class:`Late` in a block that takes more time, or more ``processor`` time, between two
    steps of Python; 0 is no limit. Only a process's main thread can be interrupted: elsewhere there
    is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sent, timer = (
        (signal.SIGPROF, signal.ITIMER_PROF) if processor else (signal.SIGALRM, signal.ITIMER_REAL)
    )

    def late(*_: object) -> None:
        raise Late(f"took more than {seconds:g} s")

    before = signal.signal(sent, late)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0.0)
        signal.signal(sent, before)
