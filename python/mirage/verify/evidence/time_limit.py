"""A time limit for calculations whose length is not known in advance."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_AGAIN, _SOON = 0.25, 1e-4
"""Seconds between repeated signals, and seconds until a signal that is due."""


class OutOfTime(Exception):
    """A calculation took longer than it was given."""


@contextmanager
def time_limit(seconds: float, processor_seconds: float = math.inf) -> Generator[None]:
    """Raise :class:`OutOfTime` inside of the ``with`` block once ``seconds`` have passed, or once
    this process has computed for ``processor_seconds``, however busy the machine is.

    A nested limit ends at the latest with the outer one. The limit relies on timer signals, which
    only the main thread of a process receives (workers of process pools run there); in other
    threads there is no limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return
    if min(seconds, processor_seconds) <= 0.0:
        raise OutOfTime
    with ExitStack() as timers:
        timers.enter_context(_lost_in_silence())
        for timer, number, clock, limit in (
            (signal.ITIMER_REAL, signal.SIGALRM, time.monotonic, seconds),
            (signal.ITIMER_PROF, signal.SIGPROF, time.process_time, processor_seconds),
        ):
            if not math.isinf(limit):
                timers.enter_context(_timer(timer, number, clock, limit))
        yield


@contextmanager
def _timer(
    timer: int, number: signal.Signals, clock: Callable[[], float], seconds: float
) -> Generator[None]:
    ended, passed, start = False, False, clock()

    def end(got: int, frame: FrameType | None) -> None:
        nonlocal passed
        if not ended:
            passed = True
            raise OutOfTime

    before = signal.signal(number, end)
    # repeatedly: an exception that is raised while an object is finalized is lost
    around, _ = signal.setitimer(timer, seconds, _AGAIN)
    if 0.0 < around < seconds:
        signal.setitimer(timer, around, _AGAIN)
    try:
        yield
    except Exception as error:
        # libraries raise their own error if a function that they call raises
        if passed and not isinstance(error, OutOfTime):
            raise OutOfTime from error
        raise
    finally:
        ended = True
        signal.setitimer(timer, 0.0)
        signal.signal(number, before)
        if around > 0.0:
            signal.setitimer(timer, max(_SOON, around - (clock() - start)), _AGAIN)


@contextmanager
def _lost_in_silence() -> Generator[None]:
    """Keep Python from printing an :class:`OutOfTime` that is raised while an object is finalized;
    it is raised again."""
    before = sys.unraisablehook

    def hook(lost: UnraisableHookArgs) -> None:
        if lost.exc_type is not OutOfTime:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
