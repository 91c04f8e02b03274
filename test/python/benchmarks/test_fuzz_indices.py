"""Some of the index inputs that benchmarks/fuzz_indices.py gives to compiled programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from fuzz_indices import fuzz
from fuzz_subjects import KINDS, ROWS


@pytest.mark.parametrize(
    "name",
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
