"""Some of the index inputs that benchmarks/fuzz_indices.py gives to compiled programs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import mirage.runtime
import pytest
import torch
from mirage.emulator import EmulatorError
from thorough import some_of

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from fuzz_indices import fuzz, sanitized
from fuzz_subjects import KINDS, ROWS
from planted import plant_reads


@pytest.mark.parametrize(
    "name",
    some_of(
        [
            "embedding_norm",
            "cross_entropy",
            "scatter_add",
            "scatter_reduce",
            "bags",
            "lengths",
            "ragged",
            "windowed",
        ],
        4,
    ),
)
def test_index_inputs(name: str, tmp_path: Path) -> None:
    found = fuzz(name, 4 * ROWS, 1, tmp_path, keep=2)
    assert not found.wrong
    assert found.inputs >= 4 * ROWS
    assert set(found.kinds) == set(KINDS)
    assert found.refused
    assert not found.raised
    (*_, indices), expected = found.kept[0]
    assert indices.dtype is torch.int64
    assert len(expected) in (ROWS, 37)


TOOL = """#!/bin/sh
for part; do :; done
case "$*" in *control*) echo = ERROR SUMMARY: {planted} errors; exit;; esac
{said}
"""
"""A sanitizer that prints a given text, with ``$part`` for the part that it should run."""


@pytest.mark.parametrize(
    ("said", "clean"),
    [
        (
            "echo ran p${part%/*}: 3 runs; echo 0 runs are wrong; echo = ERROR SUMMARY: 0 errors",
            True,
        ),
        (
            "echo ran p${part%/*}: 3 runs; echo 0 runs are wrong; echo = ERROR SUMMARY: 2 errors",
            False,
        ),
        (
            "echo ran p${part%/*}: 3 runs; echo 1 runs are wrong; echo = ERROR SUMMARY: 0 errors",
            False,
        ),
        ("echo ran p${part%/*}: 3 runs; echo 0 runs are wrong", False),
        ("echo ran p0: 3 runs; test $part = 1/2 || exit 1; echo = ERROR SUMMARY: 0 errors", False),
        ("sleep 60", False),
    ],
    ids=["clean", "errors", "a wrong run", "no summary", "one stops", "late"],
)
def test_what_a_sanitizer_says_counts(
    said: str, clean: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(TOOL.format(said=said, planted=3))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("p0", "p1"):
        (tmp_path / f"{name}.mirage").mkdir()
    assert sanitized(tmp_path, 2, 0.5 if said.startswith("sleep") else 60.0, tmp_path) is clean
    summary = json.loads((tmp_path / "index_sanitizer.json").read_text())
    assert (summary["errors"] == summary["wrong"] == 0 and summary["whole"]) is clean


def test_a_sanitizer_that_sees_no_planted_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "echo ran p${part%/*}: 3 runs; echo 0 runs are wrong; echo = ERROR SUMMARY: 0 errors"
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(TOOL.format(said=said, planted=0))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("p0", "p1"):
        (tmp_path / f"{name}.mirage").mkdir()
    assert not sanitized(tmp_path, 2, 60.0, None)


def test_planted_reads_are_beyond_the_end(tmp_path: Path) -> None:
    """The emulator stops at them."""
    found = fuzz("embedding", ROWS, 1, tmp_path, keep=1)
    model = tmp_path / "embedding.mirage"
    assert plant_reads(model, tmp_path / "planted.mirage") >= 2
    inputs, _ = found.kept[0]
    inputs[-1].fill_(36)
    mirage.runtime.load(model, device="cpu")(*inputs)
    with pytest.raises(EmulatorError, match="expected an access inside"):
        mirage.runtime.load(tmp_path / "planted.mirage", device="cpu")(*inputs)
