"""Executes a compiled artifact in the emulator and compares it with a float64 reference.

from mirage.emulator.run_artifact import check_artifact

check_artifact(artifact, lambda x, w: x @ w)     # random inputs, all checks on
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from mirage.emulator.counters import Counters
from mirage.emulator.emulator import emulator_of
from mirage.emulator.errors import EmulatorError, LaunchError
from mirage.emulator.launch_arguments import Uninitialised, memory_of
from mirage.emulator.launch_limits import Limits
from mirage.emulator.launch_order import Waits
from mirage.emulator.tensor_map import Swizzle, TensorMap
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import Argument, KernelLaunch, Manifest, TensorSpec
from mirage.runtime.serialization.manifest import TensorMap as Description

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
TOLERANCE = {
    "f16": 6e-3, "bf16": 3e-2, "f32": 1e-4, "f64": 1e-12, "f8E4M3FN": 0.13, "f8E5M2": 0.26,
    "i1": 0.0, "i8": 0.0, "i16": 0.0, "i32": 0.0, "i64": 0.0,
}  # fmt: skip
"""The largest error allowed of an element, relative to its magnitude plus the root mean square of
all elements: a few roundings of the output type for intermediate values, including exponentials,
and float32 accumulation of half-precision inputs."""


class MismatchError(EmulatorError):
    """An output differs from the reference; the message says where and by how much."""


@dataclass(frozen=True)
class ArtifactRun:
    """The outputs, the counters of each kernel in launch order, and the final contents of the
    inputs that kernels write to."""

    outputs: tuple[Array, ...]
    counters: tuple[Counters, ...]
    updated: tuple[Array, ...] = ()


def strided(spec: TensorSpec) -> Array:
    """Return an array with a specification's shape and strides over memory of its own, filled with
    NaN (integers with zero)."""
    dtype = np.dtype(DTYPES[spec.dtype])
    filling = 0 if dtype.kind in "bi" else np.nan
    flat = np.full(max(spec.bytes // dtype.itemsize, 1), filling, dtype)
    strides = tuple(s * dtype.itemsize for s in spec.strides)
    return np.ndarray(spec.shape, dtype, flat.view(np.uint8), strides=strides)


def random_inputs(specs: Sequence[TensorSpec], seed: int = 0) -> list[Array]:
    """Return reproducible normal values of standard deviation 1/2. Integers are below 4 (any table
    has such rows), and truth values are true in three of four cases.

    The first element of each input is 2: lanes that are out of bounds read it and must discard it,
    so a lane that does not becomes visible.
    """
    generator = np.random.default_rng(seed)
    arrays: list[Array] = []
    for spec in specs:
        array = strided(spec)
        if array.dtype.kind in "bi":
            array[...] = generator.integers(0, 4, spec.shape).astype(array.dtype)
        else:
            array[...] = (generator.standard_normal(spec.shape) * 0.5).astype(array.dtype)
        if array.size and array.dtype.kind not in "bi":
            array[(0,) * array.ndim] = 2.0
        arrays.append(array)
    return arrays


def _buffers(
    manifest: Manifest, inputs: Sequence[Array]
) -> tuple[dict[tuple[str, int], Array], dict[tuple[str, int], Uninitialised]]:
    """Return all tensors by kind and number, and those that nothing has written yet. Raises
    LaunchError if inputs have other shapes."""
    buffers: dict[tuple[str, int], Array] = {}
    fresh: dict[tuple[str, int], Uninitialised] = {}
    for i, (given, spec) in enumerate(zip(inputs, manifest.inputs, strict=True)):
        if given.shape != spec.shape:
            raise LaunchError(
                f"expected shape {spec.shape} for input {i} ({spec.name}), got {given.shape}"
            )
        array = strided(spec)
        array[...] = given.astype(array.dtype)
        buffers["input", i] = array
    for i, spec in enumerate(manifest.outputs):
        buffers["output", i] = strided(spec)
    for i, buffer in enumerate(manifest.workspace):
        buffers["workspace", i] = np.zeros(buffer.shape, DTYPES[buffer.dtype])
    for key, array in buffers.items():
        if key[0] != "input":
            memory = memory_of(array)
            memory[...] = 0xFF
            fresh[key] = Uninitialised(array, np.zeros(len(memory), bool))
    return buffers, fresh


def run_artifact(
    artifact: Artifact,
    inputs: Sequence[Array],
    *,
    limits: Limits | None = None,
    checks: bool = True,
    stats: bool = True,
) -> ArtifactRun:
    """Return the outputs of the artifact for `inputs` (with shapes of the manifest; converted to
    its element types and strides).

    Every intermediate buffer is a separate allocation that starts uninitialised, even if buffers
    share memory in the workspace. Raises LaunchError if inputs do not match or an output is not
    written completely, and the errors of the checks.
    """
    manifest = artifact.manifest
    if len(inputs) != len(manifest.inputs):
        names = ", ".join(t.name for t in manifest.inputs)
        raise LaunchError(f"expected {len(manifest.inputs)} inputs ({names}), got {len(inputs)}")
    buffers, fresh = _buffers(manifest, inputs)
    counters: list[Counters] = []
    early = early_kernels(artifact)
    with ExitStack() as stack:
        modules = [
            stack.enter_context(emulator_of(artifact.ptx(i))) for i in range(len(manifest.modules))
        ]
        for kernel in manifest.kernels:
            arguments = [
                np.int32(manifest.size.value) if a.kind == "size" and manifest.size is not None
                else _argument(buffers, fresh, a)
                for a in kernel.arguments
            ]  # fmt: skip
            result = modules[kernel.module].launch(
                kernel.entry,
                grid=kernel.grid,
                block=kernel.block,
                cluster=kernel.cluster or (1, 1, 1),
                shared_bytes=kernel.shared_bytes,
                args=arguments,
                limits=limits,
                checks=checks,
                stats=stats,
                waits=waits_of(kernel, early),
            )
            counters.append(result.stats)
    for (kind, i), argument in fresh.items():
        if kind == "output" and argument.unwritten and checks:
            spec = manifest.outputs[i]
            raise LaunchError(
                f"expected the kernels to write all of output {i} ({spec.name}), but "
                f"{argument.unwritten} of {argument.array.nbytes} bytes are never written"
            )
    outputs = tuple(buffers["output", i] for i in range(len(manifest.outputs)))
    updated = tuple(buffers["input", i] for i in manifest.updates)
    return ArtifactRun(outputs, tuple(counters), updated)


def early_kernels(artifact: Artifact) -> frozenset[str]:
    """Return the kernels that let the next one start before they wait for those before them. The
    first kernel may not, because it follows unknown ones; neither may a kernel whose successor runs
    at the same time."""
    kernels = artifact.manifest.kernels
    after = (*kernels[1:], None)
    late = {
        kernel.entry
        for kernel, following in zip(kernels, after, strict=True)
        if kernel is kernels[0] or kernel.beside or following is None or following.beside
    }
    found: set[str] = set()
    for number in range(len(artifact.manifest.modules)):
        with emulator_of(artifact.ptx(number)) as emulator:
            found.update(k for k in emulator.kernels if emulator.starts_next_first(k))
    return frozenset(found - late)


def waits_of(kernel: KernelLaunch, early: Container[str] = ()) -> Waits:
    """Return where a kernel of an artifact waits for those before it; ``early`` kernels let the
    next one start before."""
    if not kernel.dependent:
        return Waits.NOWHERE
    return Waits.LAST if kernel.beside or kernel.entry in early else Waits.FIRST


_SWIZZLES: dict[int, Swizzle] = {0: "none", 32: "32B", 64: "64B", 128: "128B"}


def tensor_map(start: Array, described: Description) -> TensorMap:
    """Return the map that a manifest describes, for the memory that starts with ``start``."""
    dtype = np.dtype(DTYPES[described.dtype])
    array = in_steps(memory_of(start), dtype, described.shape, described.strides)
    return TensorMap(array, described.box, _SWIZZLES[described.swizzle], tf32=described.tf32)


def in_steps(
    memory: Array, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int] | None
) -> Array:
    """Return the tensor at the start of some bytes whose elements lie ``strides`` (in elements)
    apart; None: densely."""
    if strides is None:
        return memory[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
    flat = memory[: span(shape, strides) * dtype.itemsize].view(dtype)
    return np.ndarray(shape, dtype, flat, strides=[n * dtype.itemsize for n in strides])


def span(shape: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return the number of elements from the first to the last one of a tensor."""
    if strides is None:
        return prod(shape)
    return 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _argument(
    buffers: dict[tuple[str, int], Array],
    fresh: dict[tuple[str, int], Uninitialised],
    given: Argument,
) -> Array | Uninitialised | TensorMap:
    key = given.kind, given.index
    if given.map is not None:
        return tensor_map(memory_of(buffers[key])[given.offset :], given.map)
    if not given.offset:
        array = buffers[key]
        # an array of rank 0 would be treated as a scalar
        return fresh.get(key, array if array.ndim else array.reshape(1))
    part = memory_of(buffers[key])[given.offset :]
    argument = fresh.get(key)
    if argument is None:
        return part
    return Uninitialised(part, argument.written)


def compare(
    outputs: Sequence[Array], references: Sequence[Array], tolerances: Sequence[float]
) -> None:
    """Raise MismatchError unless every element of an output is within its tolerance of the
    reference, relative to its own magnitude plus the output's root mean square. NaN matches only
    NaN."""
    for i, (output, reference, tolerance) in enumerate(
        zip(outputs, references, tolerances, strict=True)
    ):
        actual = np.asarray(output, np.float64)
        expected = np.asarray(reference, np.float64)
        if actual.shape != expected.shape:
            raise MismatchError(
                f"expected output {i} of the reference's shape {expected.shape}, got {actual.shape}"
            )
        if not actual.size:
            continue
        finite = expected[np.isfinite(expected)]
        typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        scale = typical + np.where(np.isfinite(expected), np.abs(expected), 0.0)
        scale = np.where(scale == 0, 1.0, scale)
        with np.errstate(invalid="ignore"):
            error = np.where(actual == expected, 0.0, np.abs(actual - expected))
        error = np.where(np.isnan(actual) & np.isnan(expected), 0.0, error)
        wrong = ~(error <= tolerance * scale)
        if wrong.any():
            part = error / scale
            worst = np.unravel_index(
                int(np.argmax(np.where(np.isnan(part), np.inf, part))), error.shape
            )
            place = tuple(int(v) for v in worst)
            raise MismatchError(
                f"expected output {i} within {tolerance:g} of the reference, relative to each "
                f"element plus the root mean square {typical:g}, but {int(wrong.sum())} of "
                f"{wrong.size} elements differ more; the worst is at {place}: expected "
                f"{expected[place]:g}, got {actual[place]:g}"
            )


def check_artifact(
    artifact: Artifact,
    reference: Callable[..., Any],
    *,
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    limits: Limits | None = None,
    stats: bool = False,
) -> ArtifactRun:
    """Run the artifact with all checks and compare every output with `reference`, which takes the
    inputs as float64 arrays and returns one array or a tuple.

    `tolerance` replaces `TOLERANCE` of the output types; with `stats` the launch counts sectors and
    bank conflicts too. Raises MismatchError and the errors of `run_artifact`.
    """
    manifest = artifact.manifest
    given = random_inputs(manifest.inputs, seed) if inputs is None else list(inputs)
    run = run_artifact(artifact, given, limits=limits, stats=stats)
    rounded = [
        np.asarray(x).astype(DTYPES[spec.dtype]).astype(np.float64)
        for x, spec in zip(given, manifest.inputs, strict=True)
    ]
    result = reference(*rounded)
    references = result if isinstance(result, (tuple, list)) else (result,)
    if len(references) != len(manifest.outputs):
        raise LaunchError(
            f"expected {len(manifest.outputs)} arrays from the reference, got {len(references)}"
        )
    tolerances = [TOLERANCE[s.dtype] if tolerance is None else tolerance for s in manifest.outputs]
    compare(run.outputs, references, tolerances)
    return run
