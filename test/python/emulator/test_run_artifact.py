"""Artifacts are executed and compared; arguments that do not fit are reported."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from mirage.emulator import (
    Emulator,
    EmulatorError,
    LaunchError,
    Uninitialised,
    UninitialisedReadError,
)
from mirage.emulator.emulator import emulator_of
from mirage.emulator.run_artifact import MismatchError, check_artifact, random_inputs, run_artifact
from mirage.emulator.tensors import run_on_tensors
from mirage.runtime.errors import ArgumentShapeError, ArgumentTypeError
from mirage.runtime.serialization.manifest import Argument
from small_artifacts.small_artifact import PTX, small_artifact


def _with_ptx(text: str):
    artifact = small_artifact()
    return dataclasses.replace(artifact, files={"kernels.ptx": text.encode()})


def test_artifact_matches_its_reference() -> None:
    run = check_artifact(small_artifact(), lambda x: 2 * x)
    assert [c.kernel for c in run.counters] == ["copy", "twice"]
    assert run.outputs[0].shape == (8, 8)


def test_wrong_result_is_found_with_its_place() -> None:
    with pytest.raises(MismatchError, match="worst is at"):
        check_artifact(small_artifact(), lambda x: 2.01 * x)


def test_skipped_kernel_leaves_uninitialised_memory() -> None:
    artifact = small_artifact()
    manifest = dataclasses.replace(artifact.manifest, kernels=artifact.manifest.kernels[1:])
    with pytest.raises(UninitialisedReadError, match="a to be written"):
        run_artifact(
            dataclasses.replace(artifact, manifest=manifest), random_inputs(manifest.inputs)
        )


def test_output_that_is_never_written_is_an_error() -> None:
    artifact = small_artifact()
    first, second = artifact.manifest.kernels
    manifest = dataclasses.replace(
        artifact.manifest, kernels=(first, dataclasses.replace(second, grid=(1, 1, 1)))
    )
    with pytest.raises(LaunchError, match="128 of 256 bytes are never written"):
        run_artifact(
            dataclasses.replace(artifact, manifest=manifest), random_inputs(manifest.inputs)
        )


def test_argument_offset_moves_the_pointer() -> None:
    artifact = small_artifact()
    first, second = artifact.manifest.kernels
    moved = dataclasses.replace(
        second, arguments=(Argument("workspace", 0, 16), second.arguments[1])
    )
    manifest = dataclasses.replace(artifact.manifest, kernels=(first, moved))
    with pytest.raises(EmulatorError, match="expected an access inside"):
        run_artifact(
            dataclasses.replace(artifact, manifest=manifest), random_inputs(manifest.inputs)
        )


@pytest.mark.parametrize("shape", [(8, 7), (64,)])
def test_wrong_input_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(LaunchError, match=r"expected shape \(8, 8\)"):
        run_artifact(small_artifact(), [np.zeros(shape, np.float32)])


def test_wrong_number_of_inputs() -> None:
    with pytest.raises(LaunchError, match="expected 1 inputs"):
        run_artifact(small_artifact(), [])


def test_manifest_that_does_not_fit_the_kernel() -> None:
    artifact = small_artifact()
    first, second = artifact.manifest.kernels
    broken = dataclasses.replace(first, arguments=first.arguments[:1])
    manifest = dataclasses.replace(artifact.manifest, kernels=(broken, second))
    with pytest.raises(LaunchError, match="expected 2 arguments"):
        run_artifact(
            dataclasses.replace(artifact, manifest=manifest), random_inputs(manifest.inputs)
        )


def test_kernel_that_computes_something_else() -> None:
    with pytest.raises(MismatchError):
        check_artifact(_with_ptx(PTX.replace("add.f32", "mul.f32")), lambda x: 2 * x)


def test_some_blocks_alone() -> None:
    emulator = Emulator(PTX)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    fresh = Uninitialised(y)
    ran = emulator.launch("twice", grid=(2,), block=(32,), args=[x, fresh], only=[1])
    assert ran.stats.blocks == 1
    assert fresh.unwritten == 32 * 4
    assert (y[32:] == 2 * x[32:]).all()
    with pytest.raises(LaunchError, match="below 2"):
        emulator.launch("twice", grid=(2,), block=(32,), args=[x, y], only=[2])


def test_a_text_is_parsed_once_and_again_after_an_error() -> None:
    text = PTX + "// parsed once"
    with emulator_of(text) as first:
        program = first.program("twice")
        with emulator_of(text) as meanwhile:
            assert meanwhile is not first
    with emulator_of(text) as again:
        assert again is first
        assert again.program("twice") is program
    with pytest.raises(LaunchError), emulator_of(text) as broken:
        broken.program("none")
    with emulator_of(text) as parsed:
        assert parsed is not broken


def test_few_emulators_are_kept() -> None:
    texts = [PTX + f"// number {n}" for n in range(9)]
    emulators = []
    for text in texts:
        with emulator_of(text) as emulator:
            emulators.append(emulator)
    with emulator_of(texts[0]) as again:
        assert again is not emulators[0]
    with emulator_of(texts[-1]) as again:
        assert again is emulators[-1]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(4, 8, dtype=torch.float64), ArgumentTypeError, "expected elements of type"),
        (torch.zeros(2), ArgumentShapeError, "expected shape"),
        (3, ArgumentTypeError, "expected a torch.Tensor, got int"),
    ],
)
def test_tensors_are_checked_as_on_a_gpu(x: Any, error: type[Exception], message: str) -> None:
    """Elements of another type used to be converted, so that mistakes were found only on a GPU."""
    with pytest.raises(error, match=message):
        run_on_tensors(small_artifact(), [x])
