"""A driver for the compiled launcher: functions that replace those of the driver and record the
calls. Tensors are on the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mirage.runtime.launching import fast
from mirage.runtime.launching.executable import Executable, ready_threads
from mirage.runtime.serialization.manifest import Manifest

HOST = 1
"""DLPack's number of the device type."""


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


_Handle, _Out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_Number = ctypes.POINTER(ctypes.c_int)
GRAPH_FUNCTIONS = (
    (_Handle, _Number), (_Number,), (_Out, ctypes.c_uint), (_Handle,), (_Handle, ctypes.c_int),
    (_Handle, _Out), (_Out, _Handle, ctypes.c_ulonglong), (_Handle, _Handle), (_Handle,),
    (_Handle,),
)  # fmt: skip
"""Their parameters, in the order of the launcher's table."""


class Graphs:
    """The driver's graphs of launches: a handle is an index into ``made``, and ``aside`` the only
    stream that can be recorded. ``calls`` are the names of functions, ``refused`` one that fails,
    and ``capturing`` the streams that others record."""

    NAMES = ("isCapturing", "exchangeMode", "createStream", "destroyStream", "begin", "end",
             "instantiate", "start", "destroyGraph", "destroyExec")  # fmt: skip
    ASIDE = 4242

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.capturing: set[int] = set()
        self.calls: list[str] = []
        self.recording: list[Any] | None = None
        self.made: list[list[Any]] = []
        self.alive: set[int] = set()
        self.mode = 0
        self.started: list[tuple[int, list[Any]]] = []
        self._functions = [
            ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self._noted(name))
            for name, kinds in zip(self.NAMES, GRAPH_FUNCTIONS, strict=True)
        ]
        self.addresses = tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)

    def _noted(self, name: str) -> Any:
        function = getattr(self, f"_{name}")

        def call(*args: Any) -> int:
            self.calls.append(name)
            return 900 if name == self.refused else function(*args) or 0

        return call

    def _isCapturing(self, stream: int | None, status: Any) -> None:
        status[0] = int((stream or 0) in self.capturing)

    def _exchangeMode(self, mode: Any) -> None:
        self.mode, mode[0] = mode[0], self.mode

    def _createStream(self, stream: Any, flags: int) -> None:
        assert flags == 1
        stream[0] = self.ASIDE

    def _destroyStream(self, stream: int) -> None:
        assert stream == self.ASIDE

    def _begin(self, stream: int, mode: int) -> None:
        assert (stream, mode, self.mode, self.recording) == (self.ASIDE, 2, 2, None)
        self.recording = []

    def _end(self, stream: int, graph: Any) -> None:
        assert stream == self.ASIDE
        assert self.recording is not None
        self.made.append(self.recording)
        self.recording = None
        graph[0] = len(self.made)

    def _instantiate(self, program: Any, graph: int, flags: int) -> None:
        assert flags == 0
        self.alive.add(graph)
        program[0] = graph

    def _start(self, program: int, stream: int | None) -> None:
        assert program in self.alive
        self.started.append((stream or 0, self.made[program - 1]))

    def _destroyGraph(self, graph: int) -> None:
        assert 1 <= graph <= len(self.made)

    def _destroyExec(self, program: int) -> None:
        self.alive.remove(program)


class Room:
    """Memory at an address."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


class Driver:
    """Records launches: function, geometry, stream, attributes, and the values of parameters.
    Tensor maps hold their address and extents; all encodings are recorded."""

    def __init__(
        self, manifest: Manifest, code: int = 0, encode_code: int = 0, graphs: Graphs | None = None
    ) -> None:
        self.launches: list[Any] = []
        self.encoded: list[Any] = []
        self.manifest = manifest
        self.counts = [len(k.arguments) for k in manifest.kernels]
        self.code, self.encode_code, self.stream = code, encode_code, 77
        self._functions = Function(self._launch), Encode(self._encode)
        launch, encode = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)
        self.graphs = graphs
        recorded = () if graphs is None else graphs.addresses
        self.functions = fast.DriverFunctions(launch, encode, recorded)

    def _launch(self, config: Any, function: int, params: Any, extra: Any) -> int:
        c = config.contents
        noted = self.launches
        if self.graphs is not None and c.stream == Graphs.ASIDE:
            assert self.graphs.recording is not None
            noted = self.graphs.recording
        count = self.counts[len(noted) % len(self.counts)]
        values = tuple(ctypes.string_at(params[i], 8) for i in range(count))
        geometry = tuple((d.x, d.y, d.z) for d in (c.grid, c.block))
        attributes = [(c.attributes[i].id, list(c.attributes[i].value)[:3]) for i in range(c.count)]
        noted.append((function, geometry, c.shared, c.stream, values, attributes))
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
    """Return parameters as numbers."""
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
