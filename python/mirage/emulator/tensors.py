"""Executes an artifact in the emulator on torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirage.emulator.counters import Counters
from mirage.emulator.run_artifact import run_artifact
from mirage.runtime.arguments.tensor_check import TensorCheck
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.scalar import Array

if TYPE_CHECKING:
    import torch


def run_on_tensors(
    artifact: Artifact,
    inputs: Sequence[torch.Tensor],
    *,
    checks: bool = True,
    counters: list[Counters] | None = None,
) -> list[torch.Tensor]:
    """Return the outputs for tensors on the CPU, in the form in which
    :class:`mirage.runtime.Executable` returns them on a GPU; ``counters`` get those of each kernel.
    Raises :class:`~mirage.runtime.errors.CallError` and the errors of
    :func:`~mirage.emulator.run_artifact.run_artifact`."""
    import torch

    specs = artifact.manifest.inputs
    for number, (spec, x) in enumerate(zip(specs, inputs, strict=True)):
        name = f" ({spec.name})" if spec.name else ""
        TensorCheck(spec, f"input {number}{name}").check_kind(x)
    # Integers are not converted: floats do not represent all 64-bit integers.
    given = [x.detach() if not x.is_floating_point() else x.detach().double() for x in inputs]
    arrays, counted = [x.numpy() for x in given], counters is not None
    run = run_artifact(artifact, arrays, checks=checks, stats=counted)
    if counters is not None:
        counters.extend(run.counters)
    for number, y in zip(artifact.manifest.updates, run.updated, strict=True):
        inputs[number].copy_(_tensor(y))
    return [
        _tensor(y).to(getattr(torch, TORCH_NAMES[spec.dtype]))
        for y, spec in zip(run.outputs, artifact.manifest.outputs, strict=True)
    ]


def _tensor(array: Array) -> torch.Tensor:
    """Return floats as f64, and integers unchanged."""
    import torch

    return torch.from_numpy(array.copy() if array.dtype.kind in "bi" else array.astype("float64"))
