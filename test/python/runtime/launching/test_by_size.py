"""Tables of artifacts by size: which one runs, refusals, writing to disk and reading back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mirage.emulator.run_artifact import run_artifact
from mirage.runtime import Executable, load
from mirage.runtime.errors import (
    ArgumentCountError,
    ArgumentShapeError,
    ArgumentSizeError,
    ArgumentTypeError,
    ArtifactVersionError,
    NoGpuError,
    UnreadableArtifactError,
)
from mirage.runtime.launching.by_size import SizedExecutable, SizeTable, read_sizes, write_sizes
from mirage.runtime.serialization.artifact import Artifact
from small_artifacts.sized_artifact import sized_artifact
from small_artifacts.small_artifact import small_artifact


def table(least: int = 1, most: int = 13) -> SizeTable:
    return SizeTable([sized_artifact(4), sized_artifact(16)], least, most)


@pytest.mark.parametrize(("size", "number"), [(1, 0), (3, 0), (4, 0), (5, 1), (13, 1)])
def test_the_smallest_class_that_has_the_size_runs(size: int, number: int) -> None:
    found, artifact = table().at(size)
    assert found == number
    x = np.random.default_rng(0).standard_normal((2 * size, 4))
    (y,) = run_artifact(artifact, [x]).outputs
    np.testing.assert_array_equal(y, 2 * x.astype(np.float32).reshape(size, 8))


@pytest.mark.parametrize("size", [0, 2, 14, 16, 17])
def test_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(ArgumentSizeError, match=f"expected a size from 3 to 13.*got {size}"):
        table(least=3).at(size)


class _Launched:
    """Replaces the launcher on a GPU: records its construction and its calls."""

    def __init__(self, artifact: Artifact, shares: Executable | None = None) -> None:
        self.artifact, self.shares = artifact, shares
        self.calls: list[Any] = []

    def __call__(self, *, inputs: Any, out: Any) -> tuple[Any, ...]:
        self.calls.append((inputs, out))
        return (self,)


def sized() -> SizedExecutable:
    return SizedExecutable(table(), _Launched)  # type: ignore[arg-type]


def test_calls_find_what_was_made_for_their_size() -> None:
    call, made = sized(), []
    for rows in (6, 10, 6, 26):
        (launched,) = call(torch.zeros(rows, 4))
        made.append(launched)
    assert made[0] is made[2]
    assert len(made[0].calls) == 2
    assert [m.artifact.manifest.inputs[0].shape for m in made] == [(6, 4), (10, 4), (6, 4), (26, 4)]
    assert made[1].shares is made[3].shares is not made[0].shares
    assert repr(call) == "<mirage program 'twice' for sizes from 1 to 13>"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((torch.zeros(28, 4),), ArgumentSizeError, "expected a size from 1 to 13.*got 14"),
        ((torch.zeros(0, 4),), ArgumentSizeError, "got 0"),
        ((torch.zeros(7, 4),), ArgumentShapeError, r"expected shape \(2 \* n, 4\), got \(7, 4\)"),
        ((torch.zeros(6, 5),), ArgumentShapeError, r"got \(6, 5\)"),
        ((), ArgumentCountError, r"expected 1 input tensors \(x\), got 0"),
        ((torch.zeros(6, 4), torch.zeros(1)), ArgumentCountError, "got 2"),
        ((3,), ArgumentTypeError, "input 0: expected a torch.Tensor, got int"),
    ],
)
def test_calls_that_do_not_fit(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sized()(inputs=given)


def test_a_known_size_does_not_hide_another_number_of_rows() -> None:
    call = sized()
    call(torch.zeros(6, 4))
    with pytest.raises(ArgumentShapeError, match=r"got \(7, 4\)"):
        call(torch.zeros(7, 4))


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing without a GPU")
def test_without_a_gpu_the_error_says_so() -> None:
    with pytest.raises(NoGpuError):
        SizedExecutable(table())(torch.zeros(6, 4))


def test_on_disk_and_back(tmp_path: Path) -> None:
    path = write_sizes(table(least=2), tmp_path / "t")
    again = read_sizes(path)
    assert (again.at_least, again.at_most, again.most) == (2, 13, [4, 16])
    assert [a.manifest for a in again.artifacts] == [a.manifest for a in table().artifacts]
    assert isinstance(load(path), SizedExecutable)


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("version", 2, ArtifactVersionError, "expected a table of sizes of version 1, got 2"),
        ("at_most", 17, UnreadableArtifactError, "expected sizes within 1 to 16, got 1 to 17"),
        ("at_least", 0, UnreadableArtifactError, "expected sizes within 1 to 16, got 0 to 13"),
        ("programs", ["up-to-16", "up-to-4"], UnreadableArtifactError, "for growing sizes"),
        ("programs", ["../up-to-4"], UnreadableArtifactError, "a file in the same folder"),
        ("programs", 3, UnreadableArtifactError, "expected a list of strings, got 3"),
        ("more", 3, UnreadableArtifactError, "more: expected no such key"),
    ],
)
def test_changed_tables_are_refused(
    tmp_path: Path, key: str, value: object, error: type[Exception], message: str
) -> None:
    path = write_sizes(table(), tmp_path / "t")
    data = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**data, key: value}))
    with pytest.raises(error, match=message):
        load(path)


def test_programs_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(UnreadableArtifactError, match=r"for growing sizes, got .*None"):
        SizeTable([sized_artifact(4), small_artifact()], 1, 4)
    other = sized_artifact(16)
    wider = replace(other.manifest.outputs[0], name="z")
    other = replace(other, manifest=replace(other.manifest, outputs=(wider,)))
    with pytest.raises(UnreadableArtifactError, match="the same inputs and outputs"):
        SizeTable([sized_artifact(4), other], 1, 16)
