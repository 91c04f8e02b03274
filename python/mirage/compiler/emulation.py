"""Runs an artifact's PTX in the emulator, kernel by kernel, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.compiler.errors import CompileError
from mirage.emulator import Counters, Emulator, Limits
from mirage.runtime.artifact import Artifact

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Emulated:
    """Outputs, and the counters of each kernel in launch order."""

    outputs: tuple[Array, ...]
    counters: tuple[Counters, ...]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type for an element type of a manifest."""
    if name == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"f16": "float16", "f32": "float32", "f64": "float64"}[name])


def emulate(
    artifact: Artifact,
    inputs: Sequence[Array],
    *,
    checks: bool = True,
    limits: Limits | None = None,
) -> Emulated:
    """Outputs of the artifact, computed by executing its PTX on the CPU.

    Every intermediate tensor is an allocation of its own and poisoned first, so a kernel that reads
    what nothing wrote, or beyond an end, is an error even where the workspace would hide it. Raises
    :class:`CompileError` if inputs do not fit, and :class:`~mirage.emulator.EmulatorError`.
    """
    manifest = artifact.manifest
    if len(inputs) != len(manifest.inputs):
        raise CompileError(f"expected {len(manifest.inputs)} inputs, got {len(inputs)}")
    buffers: dict[tuple[str, int], Array] = {}
    for i, (x, spec) in enumerate(zip(inputs, manifest.inputs, strict=True)):
        if x.shape != spec.shape:
            raise CompileError(
                f"input {i} ({spec.name}): expected shape {spec.shape}, got {x.shape}"
            )
        buffers[("input", i)] = np.ascontiguousarray(x, dtype=numpy_dtype(spec.dtype))
    for i, spec in enumerate(manifest.outputs):
        buffers[("output", i)] = np.zeros(spec.shape, dtype=numpy_dtype(spec.dtype))
    for i, buffer in enumerate(manifest.workspace):
        buffers[("workspace", i)] = np.zeros(buffer.shape, dtype=numpy_dtype(buffer.dtype))
    modules = [Emulator(artifact.ptx(i)) for i in range(len(manifest.modules))]
    written: set[tuple[str, int]] = set()
    counters: list[Counters] = []
    for kernel in manifest.kernels:
        arguments: list[object] = []
        for a in kernel.arguments:
            array = buffers[(a.kind, a.index)]
            if a.offset:
                raise CompileError(
                    "expected arguments without offsets, which the emulator does not take"
                )
            fresh = a.kind != "input" and (a.kind, a.index) not in written
            arguments.append(modules[kernel.module].uninitialised(array) if fresh else array)
        result = modules[kernel.module].launch(
            kernel.entry,
            grid=kernel.grid,
            block=kernel.block,
            cluster=kernel.cluster or (1, 1, 1),
            shared_bytes=kernel.shared_bytes,
            args=arguments,
            limits=limits or Limits(),
            checks=checks,
        )
        written.update((a.kind, a.index) for a in kernel.arguments)
        counters.append(result.stats)
    return Emulated(
        tuple(buffers[("output", i)] for i in range(len(manifest.outputs))), tuple(counters)
    )
