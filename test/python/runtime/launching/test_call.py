"""Calling an artifact: wrong arguments are reported before anything touches a GPU."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from mirage.runtime import NoGpuError
from mirage.runtime.errors import (
    ArgumentCountError,
    ArgumentDeviceError,
    ArgumentShapeError,
    ArgumentStrideError,
    ArgumentTypeError,
    CallError,
    DriverError,
    GradientError,
    WrongChipError,
)
from mirage.runtime.launching import cuda_driver as driver_module
from mirage.runtime.launching import even_shares, loaded_kernels
from mirage.runtime.launching.cuda_driver import runs_on
from mirage.runtime.launching.executable import Executable
from mirage.runtime.launching.loaded_kernels import load_kernels
from mirage.runtime.launching.packing import Packing
from mirage.runtime.serialization.artifact import Artifact
from small_artifacts.small_artifact import small_artifact


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), ArgumentCountError, r"expected 1 input tensors \(x\), got 0"),
        ((torch.zeros(8, 8), torch.zeros(8, 8)), ArgumentCountError, "got 2"),
        (([1.0],), ArgumentTypeError, "expected a torch.Tensor, got float"),
        (
            (torch.zeros(8, 8, dtype=torch.float16),),
            ArgumentTypeError,
            "float32, got torch.float16",
        ),
        ((torch.zeros(8, 9),), ArgumentShapeError, r"expected shape \(8, 8\), got \(8, 9\)"),
        ((torch.zeros(8, 8).T,), ArgumentStrideError, r"expected strides \(8, 1\), got \(1, 8\)"),
        ((torch.zeros(65)[1:].view(8, 8),), ArgumentStrideError, "multiple of 16 bytes"),
        ((torch.zeros(8, 8, requires_grad=True),), GradientError, "no_grad"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], error: type[CallError], message: str) -> None:
    with pytest.raises(error, match=message):
        Executable(small_artifact())(*arguments)


def test_inputs_twice() -> None:
    x = torch.zeros(8, 8)
    with pytest.raises(ArgumentCountError, match="got both"):
        Executable(small_artifact())(x, inputs=[x])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_told_at_the_call_only() -> None:
    program = Executable(small_artifact())
    with pytest.raises(NoGpuError, match="cannot launch"):
        program(torch.zeros(8, 8))
    with pytest.raises(NoGpuError, match="cannot launch"):
        program.prepare()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_host_tensor() -> None:
    with pytest.raises(ArgumentDeviceError, match=r"move it with \.cuda"):
        Executable(small_artifact())(torch.zeros(8, 8))


@pytest.mark.parametrize(
    ("chip", "capability", "expected"),
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (9, 0), True),
        ("sm_80", (7, 5), False),
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_90a", (8, 0), False),
        ("sm_100f", (10, 3), True),
        ("sm_100f", (12, 0), False),
        ("gfx942", (9, 0), False),
    ],
)
def test_chips(chip: str, capability: tuple[int, int], expected: bool) -> None:
    assert runs_on(chip, capability) is expected


class RecordingDriver:
    """Replaces the CUDA driver: records launches and the parameters that they would read."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=SimpleNamespace(name="CUDA_SUCCESS"))
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=0,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=1,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=2,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=3,
        CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK=4,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=5,
    )
    MULTIPROCESSORS = (132, 228 << 10, 1 << 10, 227 << 10)
    CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=0, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=1)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")

    def __init__(self, capability: tuple[int, int] = (8, 0), log: bytes = b"") -> None:
        self.capability = capability
        self.log = log
        self.launches: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.allowed: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        ok = self.CUresult.CUDA_SUCCESS
        return {
            "cuDeviceGet": lambda d: (ok, d),
            "cuDeviceGetAttribute": lambda a, d: (ok, (*self.capability, *self.MULTIPROCESSORS)[a]),
            "cuCtxGetCurrent": lambda: (ok, 1),
            "cuModuleLoadDataEx": self._load,
            "cuModuleGetFunction": lambda m, n: (ok, n.decode()),
            "cuFuncSetAttribute": self._allow,
            "cuFuncGetAttribute": lambda a, f: (ok, self.allowed.get(f, 48 << 10)),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor": lambda f, t, s: (ok, 16),
            "cuLaunchKernel": self._launch,
            "cuLaunchKernelEx": self._launch_with,
            "CUstream": lambda stream: stream,
            "CUlaunchConfig": SimpleNamespace,
            "CUlaunchAttribute": lambda: SimpleNamespace(
                value=SimpleNamespace(clusterDim=SimpleNamespace())
            ),
            "CUlaunchAttributeID": SimpleNamespace(
                CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION="cluster",
                CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="early",
            ),
        }[name]

    def _load(
        self, ptx: bytes, count: int, options: list[int], values: list[Any]
    ) -> tuple[Any, ...]:
        if self.log:
            values[0][: len(self.log)] = self.log
            return (SimpleNamespace(name="CUDA_ERROR_INVALID_PTX"), None)
        assert ptx.endswith(b"\0")
        return (self.CUresult.CUDA_SUCCESS, "module")

    def _allow(self, function: str, attribute: str, value: int) -> tuple[Any]:
        self.attributes.append((function, attribute, value))
        self.allowed[function] = value
        return (self.CUresult.CUDA_SUCCESS,)

    def _launch(self, function: str, *rest: Any) -> tuple[Any]:
        *geometry, stream, params, extra = rest
        pointers = (ctypes.c_void_p * 2).from_address(params)
        values = tuple(ctypes.c_uint64.from_address(p).value for p in pointers)
        self.launches.append((function, tuple(geometry), stream, values, extra))
        return (self.CUresult.CUDA_SUCCESS,)

    def _launch_with(self, config: Any, function: str, params: int, extra: int) -> tuple[Any]:
        attributes = config.attrs[: config.numAttrs]
        self.attributes.append((function, [(a.id, vars(a.value)) for a in attributes]))
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        geometry = (*grid, *block, config.sharedMemBytes)
        return self._launch(function, *geometry, config.hStream, params, extra)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    recorder = RecordingDriver()
    for module in (driver_module, loaded_kernels, even_shares):
        monkeypatch.setattr(module, "driver", lambda: recorder)
    even_shares.multiprocessors.cache_clear()
    return recorder


def test_parameters_reach_the_kernels(recorder: RecordingDriver) -> None:
    artifact = small_artifact(shared_bytes=65536)
    packing = Packing(artifact.manifest.kernels)
    kernels = load_kernels(artifact, 0, packing.params)
    (inputs,), (outputs,), (workspace,) = (
        packing.slots_of(k, 1) for k in ("input", "output", "workspace")
    )
    for address, uses in ((1000, inputs), (2000, outputs), (3000, workspace)):
        for slot, offset in uses:
            packing.slots[slot] = address + offset
    for kernel in kernels:
        kernel(77)
    geometry = (2, 1, 1, 32, 1, 1, 65536)
    assert recorder.launches == [
        ("copy", geometry, 77, (1000, 3000), 0),
        ("twice", geometry, 77, (3000, 2000), 0),
    ]
    assert recorder.attributes == [("copy", "shared", 65536), ("twice", "shared", 65536)]


def test_kernels_that_start_early(recorder: RecordingDriver) -> None:
    """The other attributes of a launch: early starts and clusters."""
    artifact = small_artifact()
    first, second = artifact.manifest.kernels
    kernels = (replace(first, cluster=(2, 1, 1)), replace(second, dependent=True))
    artifact = Artifact(replace(artifact.manifest, kernels=kernels), artifact.files)
    packing = Packing(kernels)
    for kernel in load_kernels(artifact, 0, packing.params):
        kernel(77)
    geometry = (2, 1, 1, 32, 1, 1)
    assert [launch[:3] for launch in recorder.launches] == [
        ("copy", (*geometry, 0), 77),
        ("twice", (*geometry, 114 << 10), 77),  # alone on its multiprocessor
    ]
    asks, (_, (clusters,)), (_, (early,)) = recorder.attributes
    assert asks == ("twice", "shared", 114 << 10)
    assert clusters[0] == "cluster"
    assert vars(clusters[1]["clusterDim"]) == {"x": 2, "y": 1, "z": 1}
    assert early[0] == "early"
    assert early[1]["programmaticStreamSerializationAllowed"] == 1

    recorder.attributes.clear()
    first = replace(kernels[0], dependent=True)
    (both, _) = load_kernels(
        Artifact(replace(artifact.manifest, kernels=(first, second)), artifact.files), 0,
        packing.params,
    )  # fmt: skip
    for start_early in (False, True, False):
        both(77, start_early)
    assert [[name for name, _ in found] for _, found in recorder.attributes] == [
        ["cluster"], ["cluster", "early"], ["cluster"],
    ]  # fmt: skip


def test_wrong_chip(recorder: RecordingDriver) -> None:
    artifact = small_artifact(chip="sm_90a")
    with pytest.raises(WrongChipError, match=r"compiled for sm_90a, but device 0 has .* 8\.0"):
        load_kernels(artifact, 0, Packing(artifact.manifest.kernels).params)


def test_the_driver_log_is_in_the_message(recorder: RecordingDriver) -> None:
    recorder.log = b"ptxas: line 7: Unknown symbol"
    artifact = small_artifact()
    with pytest.raises(DriverError, match=r"(?s)CUDA_ERROR_INVALID_PTX.*line 7: Unknown symbol"):
        load_kernels(artifact, 0, Packing(artifact.manifest.kernels).params)
