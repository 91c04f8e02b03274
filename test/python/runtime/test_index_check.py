"""Errors for indices that are outside, where they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mirage
import mirage.runtime
import pytest
import torch
from mirage.runtime.errors import ArgumentIndexError, CallError
from mirage.runtime.index_check import IndexCheck, check_indices
from mirage.runtime.manifest import IndexBound

OPTIONS: dict[str, Any] = {"candidates": 1, "cubin": False}


def norm(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(torch.nn.functional.embedding(ids, table), (16,))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_what_is_inside(dtype: torch.dtype) -> None:
    check_indices(torch.tensor([[0, 6], [3, 1]], dtype=dtype), "ids", 7)
    check_indices(torch.empty(0, 3, dtype=dtype), "ids", 7)  # none is outside


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([[0, 7], [3, 9]], r"ids: expected indices from 0 to 6, got 7 at \[0, 1\]"),
        ([[0, 2], [-1, 9]], r"ids: expected indices from 0 to 6, got -1 at \[1, 0\]"),
        ([[0, 2**62], [1, 2]], r"got 4611686018427387904 at \[0, 1\]"),
        ([[0, -(2**63)], [1, 2]], r"got -9223372036854775808 at \[0, 1\]"),
    ],
)
def test_what_is_outside(indices: list[list[int]], said: str) -> None:
    with pytest.raises(ArgumentIndexError, match=said) as caught:
        check_indices(torch.tensor(indices), "ids", 7)
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, CallError)


def test_a_model_that_looks_at_its_indices(tmp_path: Path) -> None:
    table, ids = torch.randn(37, 16), torch.tensor([3, 0, 36])
    path = tmp_path / "norm.mirage"
    mirage.export(norm, table, ids, path=path, options=OPTIONS)
    checked = mirage.runtime.load(path, device="cpu", check_indices=True)
    unchecked = mirage.runtime.load(path, device="cpu")
    torch.testing.assert_close(checked(table, ids), norm(table, ids))
    beyond = torch.tensor([3, 37, 0])
    assert unchecked(table, beyond)[1].isnan().all()
    with pytest.raises(IndexError, match=r"expected indices from 0 to 36, got 37 at \[1\]"):
        checked(table, beyond)
    with pytest.raises(IndexError, match=r"got -1 at \[2\]"):
        checked(table, torch.tensor([3, 0, -1]))


def test_the_manifest_says_which_inputs_are_indices(tmp_path: Path) -> None:
    table, ids = torch.randn(37, 16), torch.tensor([3, 0, 36])
    found = mirage.optimize(mirage.from_torch(norm, table, ids), mirage.OptimizeOptions(**OPTIONS))
    found.save(tmp_path / "one.mirage")
    program = mirage.runtime.load(tmp_path / "one.mirage")
    assert isinstance(program, mirage.runtime.Executable)
    manifest = program.manifest
    assert manifest.bounds == (IndexBound(1, 37),)
    with pytest.raises(ArgumentIndexError, match=r"input 1 \(.*\): .* got 40 at \[0\]"):
        IndexCheck(manifest)([table, torch.tensor([40, 0, 0])])
