"""Search times of two trees: the medians are compared for the programs that both have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import search_times

ROOT = Path(__file__).parents[3]


class Given:
    """A tree that gives the prepared answers."""

    def __init__(self, name: str, seconds: list[float], program: str = "matmul") -> None:
        self.name, self.programs = name, ["p"]
        self._rows = [
            {"cpu_s": s, "wall_s": 2 * s, "stop": "exhausted", "program": [program]}
            for s in seconds
        ]

    def measure(self, name: str) -> dict[str, Any]:
        return self._rows.pop(0)

    @property
    def left(self) -> int:
        return len(self._rows)


def compared(*trees: Given) -> dict[str, Any]:
    return search_times.compared("p", trees, 3)  # type: ignore[arg-type]


def test_medians_are_compared() -> None:
    row = compared(Given("this", [1.0, 9.0, 3.0]), Given("before", [6.0, 2.0, 1.0]))
    assert (row["this"]["cpu_s"], row["before"]["cpu_s"]) == (3.0, 2.0)
    found = search_times.summary([row], ["before"])["before"]
    assert (found["programs"], found["median_ratio"]) == (1, 1.5)
    assert found["largest_ratios"] == {"p": 1.5}


def test_a_program_whose_times_differ_is_measured_again() -> None:
    def of(this: list[float], before: list[float]) -> float:
        trees = Given("this", this), Given("before", before)
        row = search_times.compared("p", trees, 1, 1.2, 2)  # type: ignore[arg-type]
        assert trees[0].left == trees[1].left
        return row["this"]["cpu_s"] / row["before"]["cpu_s"]

    assert of([3.0, 1.0, 1.0], [2.0, 1.0, 1.0]) == 1.0
    assert of([2.0, 1.0, 1.0], [3.0, 1.0, 1.0]) == 1.0
    assert of([2.0, 9.0, 9.0], [2.0, 1.0, 1.0]) == 1.0  # not measured again


def test_another_program_is_named_and_not_compared() -> None:
    row = compared(Given("this", [1.0] * 3), Given("before", [1.0] * 3, "softmax"))
    same = compared(Given("this", [1.0] * 3), Given("before", [2.0] * 3))
    found = search_times.summary([row, {**same, "workload": "q"}], ["before"])["before"]
    assert (found["programs"], found["other_programs"]) == (1, ["p"])


def test_a_tree_that_fails_is_no_number() -> None:
    row = compared(Given("this", [1.0] * 3), Given("before", [2.0] * 3))
    row["before"] = {"error": "KeyError: p"}
    assert search_times.summary([row], ["before"]) == {}
    assert "KeyError" in search_times.line(row)


@pytest.mark.parametrize("given", ["softmax_n256"])
def test_the_command_measures_both_trees(given: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks/search_times.py"),
            *("--runs", "1", "--beside", f"copy={ROOT}", given),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"copy": {\n  "programs": 1,' in done.stdout
