"""The committed part of a measurement is small, and contains what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
import kept  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
DATA = {"command": "x", "rows": [{"name": "a", "time": 1.5, "samples": [1, 2]}, {"name": "b"}]}


def test_a_summary_leaves_details_out(tmp_path: Path) -> None:
    path = tmp_path / "out" / "times.json"
    kept.write(path, DATA, "rows", ("samples",))
    assert json.loads(path.read_text())["rows"] == [{"name": "a", "time": 1.5}, {"name": "b"}]
    assert json.loads((tmp_path / "out" / "times.raw.json").read_text()) == DATA


def test_a_summary_has_as_many_digits_as_clocks_have(tmp_path: Path) -> None:
    rows = [{"time": [17.453332742055256, 1e-9 / 3, 100000], "none": float("inf")}]
    kept.write(tmp_path / "t.json", {"rows": rows}, "rows")
    (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert row == {"time": [17.4533, 3.33333e-10, 100000], "none": float("inf")}
    assert json.loads((tmp_path / "t.raw.json").read_text())["rows"] == rows


def test_rows_may_have_names(tmp_path: Path) -> None:
    kept.write(tmp_path / "t.json", {"rows": {"a": {"x": 1, "y": 2}}}, "rows", ("y",))
    assert json.loads((tmp_path / "t.json").read_text()) == {"rows": {"a": {"x": 1}}}


def test_a_summary_that_is_too_large_is_refused(tmp_path: Path) -> None:
    rows = [{"name": "a" * 50}] * 2000
    with pytest.raises(kept.TooLargeError, match=r"at most 100000 bytes, got \d+"):
        kept.write(tmp_path / "t.json", {"rows": rows}, "rows")
    assert (tmp_path / "t.raw.json").exists()
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.name)
def test_committed_results_are_small(path: Path) -> None:
    ignored = subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT, check=False)
    if ignored.returncode == 1:
        assert path.stat().st_size <= kept.LARGEST
        json.loads(path.read_text())
