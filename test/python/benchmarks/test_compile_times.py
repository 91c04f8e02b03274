"""The contents of the record of compile times."""

from __future__ import annotations

import subprocess
import sys

import pytest
from compile_times import spent, summary


def test_summary_names_the_kernels_above_the_bound() -> None:
    rows = {
        "a/0": {"passes": 0.1, "ptxas": 0.1},
        "b/0": {"passes": 0.1, "ptxas": 0.5},
        "b/1": {"passes": 0.0, "ptxas": 0.1},
    }
    said = summary(rows, 0.5)
    assert said["above"] == {"b/0": pytest.approx(0.6)}
    assert (said["kernels"], said["median"], said["slowest"]) == (3, 0.2, 0.6)
    assert summary({}, 0.5) == {"kernels": 0}


def test_time_of_processes_that_are_started_counts() -> None:
    work = "sum(range(3_000_000))"
    _, seconds = spent(lambda: subprocess.run([sys.executable, "-c", work], check=True))
    assert seconds > 0.02
    result, seconds = spent(lambda: 1)
    assert result == 1
    assert seconds < 0.02
