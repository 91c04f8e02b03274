"""Calls of an artifact through the compiled launcher (``native/launcher.c``), where that is there.

It does what :class:`mirage.runtime.executable.Executable` does otherwise, in a fraction of the
time, for tensors that are as they should be. For any others it gives way: the checks in Python have
the messages.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mirage.runtime.driver import driver
from mirage.runtime.errors import DriverError
from mirage.runtime.manifest import ELEMENT_BYTES, TORCH_NAMES, Manifest, TensorSpec
from mirage.runtime.tensor_maps import BYTES, Encodings

if TYPE_CHECKING:
    import torch

ALIGNMENT = 16
"""Tensors must start at multiples of this many bytes: kernels copy 16 bytes at a time."""
PURE = "MIRAGE_PURE_PYTHON"
"""Set to 1, this environment variable leaves the compiled launcher out."""
CUDA = 2
"""What DLPack calls the device type."""
_KINDS = {"f": 2, "b": 4, "i": 0}
_EXCHANGE = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")
_KINDS_OF_BUFFERS = ("input", "output", "workspace")


@cache
def compiled() -> Any:
    """The compiled class; None where it is not there, or this torch lacks what it needs."""
    if os.environ.get(PURE) == "1":
        return None
    try:
        launcher: Any = import_module("mirage._launcher")
    except ImportError:
        return None
    return launcher.Launcher if exchange() is not None else None


@cache
def exchange() -> Any:
    """PyTorch's table of functions to read tensors with, None in versions without it."""
    import torch

    found = (getattr(torch.Tensor, name, None) for name in _EXCHANGE)
    return next((table for table in found if table is not None), None)


@cache
def launch_function() -> int:
    """The address of the driver's ``cuLaunchKernelEx``; 0 where it is not found."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            found = ctypes.CDLL(name).cuLaunchKernelEx
        except (OSError, AttributeError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value or 0
    return 0


def native_launcher(
    manifest: Manifest,
    functions: Sequence[int],
    device: tuple[int, int],
    launch: int,
) -> Any:
    """The compiled launcher of an artifact whose kernels are ``functions``; None where there is
    none. ``device`` is DLPack's type and number, ``launch`` the address of the driver's function.
    """
    import torch

    kind = compiled()
    if kind is None or not launch:
        return None
    counts = (0, len(manifest.inputs), len(manifest.inputs) + len(manifest.outputs))
    first: dict[str, int] = dict(zip(_KINDS_OF_BUFFERS, counts, strict=True))
    maps: list[Any] = []
    kernels: list[Any] = []
    for function, kernel in zip(functions, manifest.kernels, strict=True):
        params: list[tuple[int, int, int]] = []
        for argument in kernel.arguments:
            if argument.kind == "size":  # bytes that do not depend on the address
                params.append((0, 0, len(maps)))
                maps.append(_constant(0 if manifest.size is None else manifest.size.value))
                continue
            source = first[argument.kind] + argument.index
            params.append((source, argument.offset, -1 if argument.map is None else len(maps)))
            if argument.map is not None:
                maps.append(Encodings(argument.map))
        geometry = (*kernel.grid, *kernel.block)
        kernels.append(
            (function, geometry, kernel.shared_bytes, kernel.cluster or (), kernel.dependent,
             tuple(params))
        )  # fmt: skip
    return kind(
        exchange(), launch, device, ALIGNMENT, (torch.Tensor, torch.nn.Parameter),
        tuple(_spec(s) for s in (*manifest.inputs, *manifest.outputs)), len(manifest.inputs),
        tuple(b.offset for b in manifest.workspace), tuple(kernels), len(maps),
        lambda number, address: maps[number](address),
    )  # fmt: skip


def _constant(size: int) -> Callable[[int], bytes]:
    """What a parameter holds that is a size: the driver reads as many bytes as the kernel takes."""
    data = size.to_bytes(BYTES, "little")
    return lambda address: data


def _spec(spec: TensorSpec) -> tuple[Any, ...]:
    """DLPack's kind and bits, bytes, shape and strides."""
    kind = 6 if spec.dtype == "i1" else _KINDS[spec.dtype[0]]
    bits = 8 * ELEMENT_BYTES[spec.dtype]
    return kind, bits, spec.bytes, tuple(spec.shape), tuple(spec.strides)


class FastCalls:
    """Calls of an artifact on one device. ``workspace`` gives the memory between kernels
    on a stream; without one there is none. ``ready`` says of a thread that it has the
    device's context."""

    def __init__(
        self,
        launcher: Any,
        manifest: Manifest,
        device: int,
        ready: threading.local,
        workspace: Callable[[int], torch.Tensor] | None,
        current_device: Callable[[], int],
        current_stream: Callable[[int], int],
    ) -> None:
        import torch

        self._launch = launcher.launch
        self.manifest = manifest
        self.device = device
        self._ready, self._workspace = ready, workspace
        self._current_device, self._current_stream = current_device, current_stream
        self._gradients = torch.is_grad_enabled
        self._empty = allocator(device)
        self._results = [
            (s.shape, s.strides, getattr(torch, TORCH_NAMES[s.dtype])) for s in manifest.outputs
        ]

    def __call__(
        self, given: Sequence[torch.Tensor], out: Sequence[torch.Tensor] | None
    ) -> tuple[torch.Tensor, ...] | None:
        """The outputs; None where something is not as it should be. Raises :class:`DriverError`."""
        if self._current_device() != self.device or not hasattr(self._ready, "ready"):
            return None
        results = (
            tuple([self._empty(*result) for result in self._results]) if out is None else tuple(out)
        )
        stream = self._current_stream(self.device)
        room = None if self._workspace is None else self._workspace(stream)  # until it is launched
        workspace = 0 if room is None else room.data_ptr()
        done = self._launch(given, results, out is not None, self._gradients(), workspace, stream)
        if done is True:
            return results
        if done is False:
            return None
        number, code = done
        kernel = self.manifest.kernels[number]
        raise DriverError(
            f"launch of kernel {kernel.entry!r} with grid {kernel.grid}, block {kernel.block} and "
            f"{kernel.shared_bytes} bytes of shared memory: {_name(code)}"
        )


def allocator(device: int) -> Callable[..., torch.Tensor]:
    """Makes a tensor of a shape, strides and a type on the current device; -1 is the host."""
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
