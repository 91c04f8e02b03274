"""Manifests of programs with a size: for other sizes, read and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mirage.runtime.errors import ArgumentShapeError, ArgumentSizeError, UnreadableArtifactError
from mirage.runtime.launching.packing import Packing
from mirage.runtime.serialization.artifact import Artifact, read_artifact, write_artifact
from mirage.runtime.serialization.manifest import Argument, TensorMap
from mirage.runtime.serialization.manifest_reader import from_json
from mirage.runtime.serialization.sizes import at_size, sizes_of
from small_artifacts.sized_artifact import sized_artifact


def test_another_size_has_other_rows_blocks_and_tensor_maps() -> None:
    artifact = sized_artifact(most=8)
    first, second = artifact.manifest.kernels
    described = TensorMap((16, 4), "f32", (4, 4), 0)
    mapped = replace(first.arguments[0], map=described)
    manifest = replace(
        artifact.manifest, kernels=(replace(first, arguments=(*first.arguments, mapped)), second)
    )
    m = at_size(manifest, 5)
    assert [t.shape for t in (*m.inputs, *m.outputs, *m.workspace)] == [(10, 4), (5, 8), (10, 4)]
    assert m.workspace[0].offset == manifest.workspace[0].offset
    assert m.kernels[0].grid == (2 * 5, 1, 1)  # rows = (2, 2) of 16 blocks
    assert m.kernels[1].grid == second.grid
    assert m.kernels[0].arguments[-1].map == replace(described, shape=(10, 4))
    assert m.size is not None
    assert (m.size.value, m.size.at_most) == (5, 8)


@pytest.mark.parametrize("size", [0, 9, -1])
def test_a_size_without_kernels_is_refused(size: int) -> None:
    with pytest.raises(ArgumentSizeError, match=f"expected a size from 1 to 8.*got {size}"):
        at_size(sized_artifact(most=8).manifest, size)


def test_the_size_of_inputs() -> None:
    m = sized_artifact(most=8).manifest
    assert sizes_of(m, [(6, 4)]) == 3
    for shape in ((5, 4), (6, 3), (6,), (6, 4, 1)):
        with pytest.raises(
            ArgumentShapeError, match=r"input 0 \(x\): expected shape \(2 \* n, 4\)"
        ):
            sizes_of(m, [shape])


def test_inputs_have_one_size() -> None:
    m = sized_artifact(most=8).manifest
    assert m.size is not None
    two = replace(
        m, inputs=(m.inputs[0], replace(m.inputs[0], name="z")), size=replace(m.size, inputs=(0, 1))
    )
    with pytest.raises(ArgumentShapeError, match="expected inputs of one size, got 3 of x, 4 of z"):
        sizes_of(two, [(6, 4), (8, 4)])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    artifact = sized_artifact(most=8)
    assert read_artifact(write_artifact(artifact, tmp_path / "a")).manifest == artifact.manifest


ARGUMENT = {"kind": "input", "index": 0, "offset": 0, "map": None, "strides": None}


def _wrong(artifact: Artifact, *path: Any, value: object) -> Any:
    data = json.loads(json.dumps(artifact.manifest.to_json()))
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("size", "at_most"), 0, "size.at_most: expected a positive integer, got 0"),
        (("size", "at_most"), 3, "inputs.0..shape: expected a multiple of 3 rows"),
        (("size", "inputs"), [1], "size.inputs: expected one of 1 tensors, got 1"),
        (("kernels", 1, "arguments", 2), ARGUMENT, "arguments: expected the size once where rows"),
        (("size", "more"), 1, "size.more: expected no such key"),
        (("size",), None, "expected one of 0 sizes, got 0"),
        (("kernels", 0, "rows"), [1], "rows: expected two positive integers or null"),
        (("kernels", 0, "rows"), [2, 0], "rows: expected two positive integers or null"),
        (("kernels", 0, "rows"), [3, 2], "grid: expected 12 equal parts"),
    ],
)  # fmt: skip
def test_wrong_manifests(path: tuple[Any, ...], value: object, message: str) -> None:
    artifact = sized_artifact(most=8)
    with pytest.raises(UnreadableArtifactError, match=message):
        from_json(_wrong(artifact, *path, value=value), "manifest.json")


def test_kernels_of_maps_with_other_rows_are_refused() -> None:
    m = sized_artifact(most=8).manifest
    kernel = m.kernels[0]
    odd = replace(kernel.arguments[0], map=TensorMap((15, 4), "f32", (4, 4), 0))
    kernel = replace(kernel, arguments=(*kernel.arguments, odd))
    with pytest.raises(UnreadableArtifactError, match="expected maps of a multiple of 8 rows"):
        from_json(
            _wrong(Artifact(replace(m, kernels=(kernel, m.kernels[1])), {}), "name", value="x"), ""
        )


def test_kernels_get_the_size_as_a_number() -> None:
    m = at_size(sized_artifact(most=8).manifest, 5)
    packing = Packing(m.kernels, 5)
    places = [i for k in m.kernels for i, a in enumerate(k.arguments) if a == Argument("size", 0)]
    assert places == [2, 2]
    assert [packing.slots[2], packing.slots[5]] == [5, 5]
    assert ("size", 0) not in packing.uses
