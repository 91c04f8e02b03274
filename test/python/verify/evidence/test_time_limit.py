"""Calculations that are ended by wall time or by processor time."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest
from mirage.verify.evidence.time_limit import OutOfTime, time_limit


def busy() -> None:
    while True:
        sum(range(1000))


@pytest.mark.parametrize("limits", [(0.05, 1e9), (1e9, 0.05), (0.0, 1.0), (1.0, -1.0)])
def test_an_endless_calculation_ends(limits: tuple[float, float]) -> None:
    before = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF)
    with pytest.raises(OutOfTime), time_limit(*limits):
        busy()
    assert (signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF)) == before


class Slow:
    """Exceptions during the finalization of an object are lost."""

    def __del__(self) -> None:
        time.sleep(0.2)


def slow_then_busy() -> None:
    Slow()
    busy()


def test_a_signal_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is printed about it."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with pytest.raises(OutOfTime), time_limit(0.1):
        slow_then_busy()
    assert not said
    sys.unraisablehook("another")  # type: ignore[arg-type]
    assert said == ["another"]


def test_what_ends_by_itself_is_left_alone() -> None:
    with time_limit(0.2, 0.2):
        pass
    time.sleep(0.3)  # no signal is left over


def test_waiting_takes_no_processor_time() -> None:
    with time_limit(float("inf"), 0.2):
        time.sleep(0.3)


def test_other_threads_have_no_limit() -> None:
    done: list[int] = []

    def run() -> None:
        with time_limit(0.0):
            done.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [1]


def within(inner: float, outer: float, clock: str) -> list[str]:
    """The limit that ends each of two nested calculations."""
    limits = ({"seconds": math.inf, clock: limit} for limit in (inner, outer))
    ended: list[str] = []
    first, second = limits
    with suppress(OutOfTime), time_limit(**second):
        start = time.monotonic()
        with suppress(OutOfTime), time_limit(**first):
            busy()
        ended.append("inner")
        with suppress(OutOfTime):
            busy()
        ended.append("outer")
        assert time.monotonic() - start < 100.0
    return ended


@pytest.mark.parametrize("clock", ["seconds", "processor_seconds"])
def test_a_limit_within_another(clock: str) -> None:
    """The inner one does not stop the clock of the outer one, nor outlast it."""
    assert within(0.05, 0.2, clock) == ["inner", "outer"]
    assert within(1e6, 0.2, clock)[:1] in ([], ["inner"])


def test_an_error_that_a_library_makes_of_it() -> None:
    """NumPy reports that types have no common type if it is interrupted while it examines them."""

    def compare() -> None:
        try:
            busy()
        except Exception:
            raise TypeError("no common type") from None

    with pytest.raises(OutOfTime), time_limit(0.05):
        compare()
    with pytest.raises(TypeError), time_limit(100.0):
        raise TypeError("in time")
