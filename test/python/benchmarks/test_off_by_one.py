"""Sizes next to a multiple: which ones are compared, and their permitted times."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import off_by_one
from mirage.runtime import load
from mirage.workloads.linear import softmax_rows
from off_by_one import SUBJECTS, Pair, Subject, compared, pairs, permits_boxes, said


def test_a_pair_has_the_next_aligned_size() -> None:
    assert Pair("mm_rows", 1023).sizes == (1023, 1024)
    assert Pair("mm_rows", 1025).sizes == (1025, 1088)
    assert all(odd < aligned <= odd + 63 and aligned % 64 == 0 for odd, aligned in (
        pair.sizes for pair in pairs()
    ))  # fmt: skip
    assert {pair.subject for pair in pairs()} == set(SUBJECTS)


@pytest.mark.parametrize(
    ("subject", "boxes"),
    [("mm_rows", True), ("mm_columns", False), ("mm_depth", False), ("linear_depth", False),
     ("softmax", False), ("softmax_rows", True), ("prompt", True), ("decode", False)],
)  # fmt: skip
def test_rows_that_start_at_multiples_of_16_bytes_have_the_lower_bound(
    subject: str, boxes: bool
) -> None:
    for size in SUBJECTS[subject].sizes:
        pair = Pair(subject, size)
        assert permits_boxes(pair.program(size).graph()) is boxes
        assert pair.bound == (1.10 if boxes else 1.25)


def test_what_is_above_the_bound_is_named() -> None:
    pair = Pair("softmax", 4097)
    kept, above = compared(pair, 12.4, 10.0), compared(pair, 12.6, 10.0)
    assert (kept["ratio"], kept["kept"], above["kept"]) == (1.24, True, False)
    assert "ABOVE" in said(above)
    assert "ABOVE" not in said(kept)


def test_both_programs_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Subject(lambda name, n: softmax_rows(name, 4, n), (63,))
    monkeypatch.setattr(off_by_one, "SUBJECTS", {"small": small})
    arguments = argparse.Namespace(subjects=[], chip="sm_90a", budget=20.0, out=tmp_path)
    assert off_by_one.compile_all(arguments) == 0
    (row,) = json.loads((tmp_path / "off_by_one_predicted.json").read_text())["rows"]
    assert row["us"] > 0.0
    assert row["us_aligned"] > 0.0
    for size in (63, 64):
        assert load(tmp_path / f"small_{size}.mirage").manifest.kernels
