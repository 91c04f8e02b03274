"""A driver for the compiled launcher: functions in the place of the driver's, which note what they
are called with. Tensors are on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mirage.runtime import fast
from mirage.runtime.executable import Executable, ready_threads
from mirage.runtime.manifest import Manifest

HOST = 1
"""What DLPack calls the device type."""


class Dim(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [
        ("grid", Dim), ("block", Dim), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    ]  # fmt: skip


Function = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Config), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)  # fmt: skip
_Long, _Int = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
Encode = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, _Long, _Long,
    _Int, _Int, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
)  # fmt: skip


class Room:
    """Memory at an address."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


class Driver:
    """Notes launches: function, geometry, stream, attributes, and what parameters point to. Tensor
    maps hold their address and extents; all encodings are noted."""

    def __init__(self, manifest: Manifest, code: int = 0, encode_code: int = 0) -> None:
        self.launches: list[Any] = []
        self.encoded: list[Any] = []
        self.manifest = manifest
        self.counts = [len(k.arguments) for k in manifest.kernels]
        self.code, self.encode_code, self.stream = code, encode_code, 77
        self._functions = Function(self._launch), Encode(self._encode)
        launch, encode = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)
        self.functions = fast.DriverFunctions(launch, encode)

    def _launch(self, config: Any, function: int, params: Any, extra: Any) -> int:
        c = config.contents
        count = self.counts[len(self.launches) % len(self.counts)]
        values = tuple(ctypes.string_at(params[i], 8) for i in range(count))
        geometry = tuple((d.x, d.y, d.z) for d in (c.grid, c.block))
        attributes = [(c.attributes[i].id, list(c.attributes[i].value)[:3]) for i in range(c.count)]
        self.launches.append((function, geometry, c.shared, c.stream, values, attributes))
        return self.code

    def _encode(
        self, room: int, kind: int, rank: int, address: int, shape: Any, strides: Any, box: Any,
        steps: Any, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        extents = tuple(shape[:rank])
        self.encoded.append(
            (kind, address, extents, tuple(strides[: rank - 1]), tuple(box[:rank]),
             tuple(steps[:rank]), interleave, swizzle, promotion, fill)
        )  # fmt: skip
        ctypes.memmove(room, address.to_bytes(8, "little"), 8)
        return self.encode_code


def addresses(values: Sequence[bytes]) -> list[int]:
    """Parameters as numbers."""
    return [int.from_bytes(v[:8], "little") for v in values]


def on_host(program: Executable, driver: Driver, workspace: int | None = None) -> Executable:
    """The program with a compiled launcher that takes tensors on the host; this thread can launch.
    ``workspace`` is an address."""
    functions = range(100, 100 + len(driver.manifest.kernels))
    ready_threads(-1).ready = True
    around = fast.Surroundings(
        -1, ready_threads(-1), None if workspace is None else lambda stream: Room(workspace),
        lambda: -1, lambda device: driver.stream,  # which keeps its functions
    )  # fmt: skip
    call = fast.fast_call(driver.manifest, functions, HOST, driver.functions, around)
    assert call is not None
    program._fast[-1] = call
    return program
