"""Calls of an artifact through the compiled launcher (``native/launcher.c``), if it is available.

It does the work of :class:`mirage.runtime.launching.executable.Executable` in a fraction of the
time, for valid tensors. It declines any others: the checks in Python produce the messages.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mirage.runtime.errors import DriverError
from mirage.runtime.launching.cuda_driver import driver
from mirage.runtime.launching.tensor_maps import SWIZZLES, element_type, layout
from mirage.runtime.serialization.manifest import (
    ELEMENT_BYTES,
    TORCH_NAMES,
    Argument,
    Manifest,
    TensorMap,
)

if TYPE_CHECKING:
    import torch

ALIGNMENT = 16
"""The alignment of tensors in bytes: kernels copy 16 bytes at a time."""
PURE = "MIRAGE_PURE_PYTHON"
"""The environment variable that disables the compiled launcher if it is set to 1."""
GRAPHS = "MIRAGE_GRAPHS"
"""The environment variable that disables graphs of launches if it is set to 0; calls then launch
kernel by kernel."""
_GRAPHS = (
    "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode", "cuStreamCreate",
    "cuStreamDestroy_v2", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy",
)  # fmt: skip
"""The driver functions that a graph of launches needs, as ``GraphFunctions`` in
``native/interfaces.h``."""
CUDA = 2
"""DLPack's number of the device type."""
_KINDS = {
    "f16": 2, "bf16": 4, "f32": 2, "f64": 2, "f8E4M3FN": 10, "f8E5M2": 12, "i1": 6, "i8": 0,
    "i16": 0, "i32": 0, "i64": 0,
}  # fmt: skip
"""DLPack's codes of element types."""
_EXCHANGE = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")
VERSION = 4
"""The version of the compiled launcher; a launcher of another version takes other arguments and is
not used."""
_KINDS_OF_BUFFERS = ("input", "output", "workspace")


@cache
def compiled() -> Any:
    """Return the compiled class; None if it is missing, or if this torch lacks something that it
    needs."""
    if os.environ.get(PURE) == "1":
        return None
    try:
        launcher: Any = import_module("mirage._launcher")
    except ImportError:
        return None
    fits = getattr(launcher, "VERSION", 1) == VERSION
    return launcher.Launcher if fits and exchange() is not None else None


@cache
def exchange() -> Any:
    """Return PyTorch's table of functions for reading tensors; None in versions without it."""
    import torch

    found = (getattr(torch.Tensor, name, None) for name in _EXCHANGE)
    return next((table for table in found if table is not None), None)


@dataclass(frozen=True)
class DriverFunctions:
    """The addresses of the driver's ``cuLaunchKernelEx`` and ``cuTensorMapEncodeTiled``, 0 if
    missing. ``graphs`` are those of :data:`_GRAPHS`, empty if launches are never recorded."""

    launch: int
    encode: int
    graphs: tuple[int, ...] = ()


@cache
def driver_functions() -> DriverFunctions:
    """Return the functions of this machine's driver."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        graphs = tuple(_address(library, function) for function in _GRAPHS)
        return DriverFunctions(
            _address(library, "cuLaunchKernelEx"), _address(library, "cuTensorMapEncodeTiled"),
            graphs if all(graphs) and os.environ.get(GRAPHS) != "0" else (),
        )  # fmt: skip
    return DriverFunctions(0, 0)


def _address(library: ctypes.CDLL, name: str) -> int:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


@dataclass(frozen=True)
class Surroundings:
    """The Python objects that a call uses. ``device`` is the number of the program's device (-1:
    the host); ``ready`` says whether a thread has the device's context; ``workspace`` returns the
    memory between kernels on a stream (None: there is none)."""

    device: int
    ready: threading.local
    workspace: Callable[[int], torch.Tensor] | None
    current_device: Callable[[], int]
    current_stream: Callable[[int], int]


FastCall: TypeAlias = "Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor] | None, bool], Any]"
"""A function of the inputs, of tensors for the results (or None), and of whether the kernels of
another artifact have been launched just before. It returns the results, or
None if an argument is not as expected. Raises :class:`DriverError`."""


def fast_call(
    manifest: Manifest,
    functions: Sequence[int],
    kind: int,
    driver_functions: DriverFunctions,
    around: Surroundings,
) -> FastCall | None:
    """Return a function that calls an artifact, whose kernels are ``functions``, through the
    compiled launcher; None if there is no launcher. ``kind`` is DLPack's type of the device. With a
    size, the manifest is that of the largest size, and calls may have any size."""
    import torch

    launcher = compiled()
    if launcher is None or not driver_functions.launch:
        return None
    maps = _Maps(manifest)
    counts = (0, len(manifest.inputs), len(manifest.inputs) + len(manifest.outputs))
    first: dict[str, int] = dict(zip(_KINDS_OF_BUFFERS, counts, strict=True))
    kernels = tuple(
        (
            function, (*k.grid, *k.block), k.shared_bytes, k.cluster or (), k.dependent,
            k.rows or (), tuple(_param(a, first, maps) for a in k.arguments),
        )
        for function, k in zip(functions, manifest.kernels, strict=True)
    )  # fmt: skip
    if maps.found and not driver_functions.encode:
        return None
    results = tuple(
        (s.shape, s.strides, getattr(torch, TORCH_NAMES[s.dtype])) for s in manifest.outputs
    )
    environment = (
        around.device, around.current_device, around.current_stream, torch.is_grad_enabled,
        allocator(around.device), results, around.ready, around.workspace,
        partial(_failed, manifest, maps.found),
    )  # fmt: skip
    size = manifest.size
    return launcher(
        exchange(), driver_functions.launch, driver_functions.encode,
        (kind, max(around.device, 0)), ALIGNMENT, (torch.Tensor, torch.nn.Parameter),
        _specs(manifest), len(manifest.inputs), tuple(b.offset for b in manifest.workspace),
        tuple(maps.read), kernels, 0 if size is None else size.at_most, manifest.updates,
        driver_functions.graphs, environment,
    ).call  # fmt: skip


class _Maps:
    """The tensor maps among the parameters: their specifications, and the data that the launcher
    reads."""

    def __init__(self, manifest: Manifest) -> None:
        self.size = manifest.size
        self.found: list[TensorMap] = []
        self.read: list[tuple[Any, ...]] = []

    def add(self, argument: Argument, spec: TensorMap) -> int:
        size = self.size
        varies = size is not None and size.varies(argument.kind, argument.index)
        each = spec.shape[0] // size.at_most if size is not None and varies else 0
        self.found.append(spec)
        self.read.append((element_type(spec), SWIZZLES[spec.swizzle], *layout(spec), each))
        return len(self.found) - 1


def _param(argument: Argument, first: Mapping[str, int], maps: _Maps) -> tuple[int, int, int]:
    """Return the source, offset and map of a parameter; the source -1 is the size."""
    if argument.kind == "size":
        return -1, 0, -1
    number = -1 if argument.map is None else maps.add(argument, argument.map)
    return first[argument.kind] + argument.index, argument.offset, number


def _specs(manifest: Manifest) -> tuple[tuple[Any, ...], ...]:
    """Return, for each input and output, DLPack's kind and bits, the bytes, shape, strides, and
    rows for each unit of the size."""
    size = manifest.size
    found: list[tuple[Any, ...]] = []
    for kind, tensors in (("input", manifest.inputs), ("output", manifest.outputs)):
        for i, spec in enumerate(tensors):
            varies = size is not None and size.varies(kind, i)
            each = spec.shape[0] // size.at_most if size is not None and varies else 0
            kind_and_bits = (_KINDS[spec.dtype], 8 * ELEMENT_BYTES[spec.dtype])
            found.append((*kind_and_bits, spec.bytes, spec.shape, spec.strides, each))
    return tuple(found)


def _failed(
    manifest: Manifest, maps: Sequence[TensorMap], number: int, code: int, size: int
) -> NoReturn:
    """Raise the error for a failed call. ``number`` is that of a kernel, the count of kernels for a
    graph of all, or -1 minus that of a tensor map."""
    at = f" at size {size}" if size else ""
    if number < 0:
        raise DriverError(f"tensor map of {maps[-1 - number]}{at}: {_name(code)}")
    if number == len(manifest.kernels):
        raise DriverError(f"launch of the {number} kernels of {manifest.name!r}{at}: {_name(code)}")
    kernel = manifest.kernels[number]
    raise DriverError(
        f"launch of kernel {kernel.entry!r} with grid {kernel.grid}, block {kernel.block} and "
        f"{kernel.shared_bytes} bytes of shared memory{at}: {_name(code)}"
    )


def allocator(device: int) -> Callable[..., torch.Tensor]:
    """Return a function that makes a tensor of a shape, strides and a type on the current device;
    -1 is the host."""
    import torch

    kind = "cuda" if device >= 0 else "cpu"
    guards = getattr(getattr(sys.modules["torch._C"], "_dynamo", None), "guards", None)
    found = getattr(guards, f"_empty_strided_{kind}", None)
    if found is not None:
        return found
    return lambda shape, strides, dtype: torch.empty_strided(
        shape, strides, dtype=dtype, device=kind
    )


def _name(code: int) -> str:
    try:
        return driver().CUresult(code).name
    except Exception:  # a code that this driver's package does not know
        return f"error {code}"
