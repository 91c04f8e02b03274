"""Runs PTX on a GPU through the CUDA driver, with the same arguments as the emulator."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from mirage.emulator import Dependent, TensorMap, Uninitialised
from mirage.emulator.launch_arguments import memory_of
from mirage.emulator.ptx.syntax import Kernel
from mirage.runtime.launching.cuda_driver import check, driver, ensure_context

Array = np.ndarray[Any, Any]
TIMEOUT_S = 10.0


class GpuTimeout(Exception):
    """A kernel did not end; the process can no longer use the GPU."""


def array_of(argument: Any) -> Array | None:
    """Return the NumPy array of an argument, if it has one."""
    if isinstance(argument, (Uninitialised, Dependent, TensorMap)):
        return argument.array
    return argument if isinstance(argument, np.ndarray) and argument.ndim else None


def root_of(array: Array) -> Array:
    """Return the array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class GpuModule:
    """PTX compiled by the driver."""

    def __init__(self, ptx: str) -> None:
        d = driver()
        ensure_context(0)
        log = bytearray(8192)
        options = [
            d.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
            d.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ]
        result = d.cuModuleLoadDataEx(ptx.encode() + b"\0", 2, options, [log, len(log)])
        self.module = check(result, "load PTX", log)

    def launch(
        self,
        kernel: Kernel,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int],
        shared_bytes: int,
    ) -> None:
        """Copy arrays to the GPU, run, and copy them back in place. Raises DriverError,
        GpuTimeout."""
        name, blocks = kernel.name, int(np.prod([*cluster]))
        function = self._function(name, shared_bytes, blocks)
        device = _copied(arguments)
        keep: list[Any] = []
        pointers = (ctypes.c_void_p * max(len(arguments), 1))()
        for i, (parameter, argument) in enumerate(zip(kernel.parameters, arguments, strict=True)):
            raw = _encode(parameter.type, parameter.bytes, argument, device)
            buffer = ctypes.create_string_buffer(raw, len(raw))
            keep.append(buffer)
            pointers[i] = ctypes.addressof(buffer)
        config = _launch_config(grid, block, cluster, shared_bytes)
        launched = driver().cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0)
        check(launched, f"launch {name}")
        self._wait(name)
        _copy_back(device)

    def _function(self, name: str, shared_bytes: int, blocks: int) -> Any:
        """Return a kernel that may use this much shared memory and clusters of this size."""
        d = driver()
        function = check(d.cuModuleGetFunction(self.module, name.encode()), name)
        if shared_bytes > 48 * 1024:
            attribute = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(d.cuFuncSetAttribute(function, attribute, shared_bytes), "shared memory")
        if blocks > 8:
            attribute = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(d.cuFuncSetAttribute(function, attribute, 1), "cluster size")
        return function

    @staticmethod
    def _wait(name: str) -> None:
        d = driver()
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            (code,) = d.cuStreamQuery(0)
            if code == d.CUresult.CUDA_SUCCESS:
                return
            if code != d.CUresult.CUDA_ERROR_NOT_READY:
                check((code,), f"kernel {name}")
            if time.monotonic() > deadline:
                raise GpuTimeout(f"kernel {name} did not end within {TIMEOUT_S:.0f} s")


Device = dict[int, tuple[int, Array]]
"""The GPU addresses of arrays, by the arrays' ids."""


def _copied(arguments: Sequence[Any]) -> Device:
    """Allocate memory on the GPU for all arrays; arrays that share memory share it there too."""
    d = driver()
    device: Device = {}
    for argument in arguments:
        array = array_of(argument)
        if array is None:
            continue
        if isinstance(argument, Uninitialised):
            memory_of(array)[...] = 0xFF
        root = root_of(array)
        if id(root) not in device:
            address = check(d.cuMemAlloc(max(len(memory_of(root)), 16)), "allocate")
            device[id(root)] = (int(address), root)
    for address, root in device.values():
        data = memory_of(root)
        if len(data):
            check(d.cuMemcpyHtoD(address, data.ctypes.data, len(data)), "copy to the GPU")
    return device


def _copy_back(device: Device) -> None:
    """Copy back into writable arrays, and free the memory on the GPU."""
    d = driver()
    for address, root in device.values():
        data = memory_of(root)
        if len(data) and data.flags.writeable:
            check(d.cuMemcpyDtoH(data.ctypes.data, address, len(data)), "copy from the GPU")
        check(d.cuMemFree(address), "free")


def _launch_config(
    grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared_bytes: int
) -> Any:
    d = driver()
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = [*grid, 1, 1][:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = [*block, 1, 1][:3]
    config.sharedMemBytes = shared_bytes
    if any(extent > 1 for extent in cluster):
        attribute = d.CUlaunchAttribute()
        attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        size.x, size.y, size.z = [*cluster, 1, 1][:3]
        config.attrs = [attribute]
        config.numAttrs = 1
    return config


def _encode(kind: str, size: int, argument: Any, device: Device) -> bytes:
    array = array_of(argument)
    if isinstance(argument, TensorMap):
        assert array is not None
        return tensor_map(argument, _address(array, device))
    if array is not None:
        return _address(array, device).to_bytes(8, "little")
    if isinstance(argument, (bytes, bytearray)):
        return bytes(argument)
    if isinstance(argument, (float, np.floating)):
        return np.array(argument, f"f{size}").tobytes()
    if kind in ("f32", "f64"):
        return np.array(argument, f"f{size}").tobytes()
    return (int(argument) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _address(array: Array, device: Device) -> int:
    root = root_of(array)
    return device[id(root)][0] + array.ctypes.data - memory_of(root).ctypes.data


def tensor_map(tensor: TensorMap, address: int) -> bytes:
    """The 128 bytes of a CUtensorMap."""
    d = driver()
    array = tensor.array
    types = d.CUtensorMapDataType
    name = {"float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32",
            "float64": "FLOAT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32",
            "int32": "INT32", "uint64": "UINT64", "int64": "INT64"}[array.dtype.name]  # fmt: skip
    swizzle = {"none": "NONE"}.get(tensor.swizzle, tensor.swizzle)
    fill = "NONE" if tensor.oob_fill == "zero" else "NAN_REQUEST_ZERO_FMA"
    result = d.cuTensorMapEncodeTiled(
        getattr(types, f"CU_TENSOR_MAP_DATA_TYPE_{name}"),
        array.ndim,
        address,
        [d.cuuint64_t(n) for n in reversed(array.shape)],
        # The driver expects a list even if there are no strides, for rank 1.
        [d.cuuint64_t(s) for s in reversed(array.strides[:-1])] or [d.cuuint64_t(0)],
        [d.cuuint32_t(n) for n in reversed(tensor.box)],
        [d.cuuint32_t(n) for n in reversed(tensor.strides)],
        d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        getattr(d.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
    )
    encoded = check(result, f"encode a tensor map of {array.shape}")
    return ctypes.string_at(encoded.getPtr(), 128)
