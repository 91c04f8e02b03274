"""Tables and plots of benchmark results, from made-up numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import report
import timing
from accuracy import Errors


def row(name: str, ours: float, **more: Any) -> dict[str, Any]:
    times = {"mirage": {"median": ours}, "eager": {"median": 30.0}, "compile": {"median": 20.0}}
    errors = {"mirage": {"l2": 1e-4, "max": 1e-3}, "eager": {"l2": 2e-4, "max": 1e-3}}
    base = {
        "name": name,
        "correct": True,
        "cold": times,
        "hot": times,
        "plain": times,
        "errors": errors,
        "best": "mirage",
        "candidates": {"mirage": {"launches": [{}, {}], "verdict": "proved"}},
    }
    return {**base, **more}


ENVIRONMENT = {"gpu": "G", "driver": "1", "torch": "2", "date": "2026-01-01", "command": "run"}


def test_results(tmp_path: Path) -> None:
    rows = [
        row("fast", 10.0),
        row("wrong", 1.0, correct=False, complaint="errors l2 1.0"),
        {"name": "broken", "error": "DriverError: no\nmore"},
    ]
    report.write(tmp_path, rows, ENVIRONMENT, "t")
    assert json.loads((tmp_path / "t.json").read_text())["results"][0]["name"] == "fast"
    table = (tmp_path / "t.md").read_text()
    assert "| fast | **10.00** | 30.00 | 20.00 | 20.00 (compile) | 2.00 |" in table
    assert "**wrong**: errors l2 1.0" in table
    assert "failed: DriverError: no |" in table
    assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) == 1
    assert (tmp_path / "t.png").stat().st_size > 1000
    assert not list(tmp_path.glob("*tmp*"))


def test_rotation_is_larger_than_the_cache() -> None:
    for size in (1, 1000, 50 << 20, 1 << 30):
        copies = timing.copies_needed(size)
        assert copies * size >= timing.COLD_BYTES
        assert timing.launches_per_graph(copies) % copies == 0
        assert timing.launches_per_graph(copies) >= 32


def test_errors() -> None:
    exact = torch.tensor([3.0, 4.0], dtype=torch.float64)
    e = Errors.of(torch.tensor([3.0, 4.5]), exact)
    assert e.l2 == pytest.approx(0.1)
    assert e.max == pytest.approx(0.125)
    assert Errors.of(torch.tensor([3.0, float("nan")]), exact).l2 == float("inf")
    assert not Errors.of(torch.tensor([float("nan")] * 2), exact).within(2.0, Errors(1.0, 1.0))
    assert Errors(2.0, 1.0).within(2.0, Errors(1.0, 1.0))
    assert not Errors(1.0, 3.0).within(2.0, Errors(1.0, 1.0))


def test_the_worst_of_several_results_counts() -> None:
    exact = tuple(torch.tensor([3.0, 4.0], dtype=torch.float64) for _ in range(2))
    got = (torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5]))
    assert Errors.of_all(got, exact) == Errors.of(got[1], exact[1])
    with pytest.raises(ValueError, match="longer"):
        Errors.of_all(got[:1], exact)
