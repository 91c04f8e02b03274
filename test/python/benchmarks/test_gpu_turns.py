"""Processes on one GPU prepare together, and measure one at a time."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from gpu_turns import Turns


def test_one_measures_while_no_other_prepares(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "lock")
    measures = threading.Event()

    def measure() -> None:
        with turns.measures():
            measures.set()

    other = threading.Thread(target=measure)
    with turns.prepares():
        with turns.prepares():
            other.start()
        assert not measures.wait(0.05)
    other.join(10)
    assert measures.is_set()


def test_a_process_alone_needs_no_lock() -> None:
    with Turns(None).measures():
        pass
