"""Peers that take too long to prepare."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from time_limit import Late, at_most


def test_what_takes_too_long_ends() -> None:
    before = signal.getsignal(signal.SIGALRM)
    stopped = pytest.raises(Late, match=r"took more than 0\.01 s")
    with stopped, at_most(0.01):
        time.sleep(60.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_what_is_quick_goes_on() -> None:
    for limit in (0.0, 60.0):
        with at_most(limit):
            done = True
        assert done
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
