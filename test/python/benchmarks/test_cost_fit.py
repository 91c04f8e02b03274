"""The measure of the cost model's predictions, and its value for the kernels that were measured."""

from __future__ import annotations

import json
import lzma
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mirage.cost import H200

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from cost_fit import (
    Measured,
    choices,
    loss,
    needed,
    ranks,
    regret,
    search,
    spearman,
    summary,
    within,
)
from kept import LARGEST

INPUTS = Path(__file__).parent / "Inputs"


def kernels_of(name: str) -> dict[str, Any]:
    return json.loads(lzma.decompress((INPUTS / name).read_bytes()))


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return kernels_of("measured_kernels.json.xz")


@pytest.mark.parametrize("path", sorted(INPUTS.iterdir()), ids=lambda path: path.name)
def test_inputs_are_what_is_read_of_a_measurement(path: Path) -> None:
    """They are also small: raw data stays on the machine of the measurement."""
    data = kernels_of(path.name)
    assert needed(data) == data
    assert path.stat().st_size <= LARGEST


def test_what_is_packed_predicts_the_same(data: dict[str, Any]) -> None:
    raw = json.loads(json.dumps(data))
    for kernel in raw["kernels"].values():
        kernel["quartiles"] = [0.0, 1.0]
        for each in kernel["kernels"]:
            each["grid"] = {"m": 1}
            each["features"].setdefault("sfu_once", 0.0)
    raw["kernels"]["failed"] = {"program": "a", "kernels": []}
    packed = needed(raw)
    assert packed == data
    for assembled in (True, False):
        times = [Measured.of(x, assembled).predict(H200) for x in (raw, packed)]
        np.testing.assert_array_equal(*times)


def test_rank_correlation() -> None:
    assert list(ranks(np.array([3.0, 1.0, 3.0, 2.0]))) == [3.5, 1.0, 3.5, 2.0]
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(x, x**3) == pytest.approx(1.0)
    assert spearman(x, -x) == pytest.approx(-1.0)
    assert spearman(x, np.ones(4)) == 0.0


def test_what_a_choice_loses() -> None:
    programs = np.array(["a", "a", "b", "b"])
    times = np.array([1.0, 2.0, 8.0, 4.0])
    assert regret(programs, times, times) == pytest.approx(1.0)
    assert regret(programs, -times, times) == pytest.approx(2.0)
    assert regret(programs, -times, times, top=2) == pytest.approx(1.0)
    assert within(programs, -times, times) == 0.0  # programs of two kernels show nothing


def test_the_table_predicts_what_was_measured(data: dict[str, Any]) -> None:
    m = Measured.of(data, assembled=True)
    s = summary(m, m.predict(H200))
    assert s["kernels"] >= 250
    assert s["all"] > 0.95
    assert s["within_programs"] > 0.6
    assert s["mean_log_error"] < 0.15
    estimated = Measured.of(data, assembled=False)
    assert summary(estimated, estimated.predict(H200))["all"] > 0.94
    chosen = choices(data, m, H200)
    assert len(chosen) == 3 + len(set(m.programs))


@pytest.mark.parametrize(
    ("name", "programs", "within_programs", "error", "mean", "worst"),
    [
        ("measured_kernels_of_42_programs.json.xz", 42, 0.45, 0.095, 1.032, 1.11),
        ("measured_kernels_of_88_programs.json.xz", 88, 0.6, 0.13, 1.018, 1.107),
        ("measured_kernels_of_85_programs.json.xz", 85, 0.75, 0.11, 1.02, 1.15),
        ("measured_kernels_of_35_programs.json.xz", 35, 0.55, 0.10, 1.02, 1.10),
    ],
)
def test_the_choice_is_near_the_best_of_the_first_eight(
    name: str, programs: int, within_programs: float, error: float, mean: float, worst: float
) -> None:
    """On average and in the worst case. Of the 35 programs, 20 are neither among the 85 nor among
    those to which parameters were fitted. The kernels of the 85 and of the 35 were compiled when a
    dependent kernel did not yet start at once."""
    data = kernels_of(name)
    m = Measured.of(data, assembled=True)
    s = summary(m, m.predict(H200))
    assert s["kernels"] >= 6 * programs
    assert s["within_programs"] > within_programs
    assert s["mean_log_error"] < error
    choices(data, m, H200)
    ratios = [c["chosen"] / c["best_of_finalists"] for c in data["choices"].values()]
    assert len(ratios) >= programs
    assert sum(ratios) / len(ratios) < mean
    assert max(ratios) < worst


def test_the_default_choice_is_near_the_best_of_the_first_eight() -> None:
    """On average and in the worst case of 72 programs, compiled and measured on an H200 on one day:
    the choice among the four that are compiled by default."""
    data = kernels_of("measured_kernels_of_72_programs.json.xz")
    m = Measured.of(data, assembled=True)
    s = summary(m, m.predict(H200))
    assert s["kernels"] == 8 * 72
    assert s["within_programs"] > 0.57
    assert s["mean_log_error"] < 0.11
    choices(data, m, H200)
    ratios = [c["taken"] / c["best_of_finalists"] for c in data["choices"].values()]
    assert sum(ratios) / len(ratios) < 1.02
    assert max(ratios) < 1.10


def test_parameters_are_found_again(data: dict[str, Any]) -> None:
    m = Measured.of(data, assembled=True)
    m = replace(m, times=m.predict(H200))
    everything = np.ones(len(m.labels), dtype=bool)
    wrong = replace(H200, step=2.0 * H200.step, launch=0.5 * H200.launch)
    found = search(wrong, lambda t: loss(m, t, everything), ("step", "launch"))
    assert found.step == pytest.approx(H200.step, rel=0.15)
    assert found.launch == pytest.approx(H200.launch, rel=0.15)
    assert loss(m, found, everything) < 0.05 * loss(m, wrong, everything)
