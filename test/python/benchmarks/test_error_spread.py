"""A difference of errors is told apart from one of the draw."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from error_spread import summary


def test_summary_of_ratios() -> None:
    found = summary([2.0, 3.0, 1.0], [2.0, 2.0, 2.0])
    assert found["ratio"] == pytest.approx(1.0)
    assert found["deviation"] == pytest.approx(0.5)
    assert found["larger"] == 1
    assert summary([1.0], [2.0])["deviation"] == 0.0
