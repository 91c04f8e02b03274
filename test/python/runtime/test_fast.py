"""The compiled launcher, with a function in the place of the driver's and tensors on the host: it
launches what Python would, and gives way where a tensor is not as it should be."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from mirage.runtime import fast
from mirage.runtime.errors import ArgumentShapeError, DriverError
from mirage.runtime.executable import Executable
from mirage.runtime.manifest import (
    Argument,
    KernelLaunch,
    Manifest,
    TensorMap,
    TensorSpec,
    WorkspaceBuffer,
)
from small_artifact import small_artifact

ROOT = Path(__file__).parents[3]
HOST = (1, 0)
PARAMS = 8
"""Parameters that the driver looks at, at most."""


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


@pytest.fixture(scope="module")
def kind() -> Any:
    """What the build compiles: without it these tests fail, as they should."""
    from mirage import _launcher  # pyright: ignore[reportAttributeAccessIssue]

    return _launcher.Launcher


@pytest.fixture(autouse=True)
def here(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "compiled", lambda: kind)


class Room:
    """Memory at an address."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


class Driver:
    """Notes launches: function, geometry, stream, attributes, and what parameters point to."""

    def __init__(self, manifest: Manifest, code: int = 0) -> None:
        self.launches: list[Any] = []
        self.counts = [len(k.arguments) for k in manifest.kernels]
        self.code = code
        self.bytes = 8
        self._function = Function(self._launch)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _launch(self, config: Any, function: int, params: Any, extra: Any) -> int:
        c = config.contents
        count = self.counts[len(self.launches) % len(self.counts)]
        values = tuple(ctypes.string_at(params[i], self.bytes) for i in range(count))
        geometry = tuple((d.x, d.y, d.z) for d in (c.grid, c.block))
        attributes = [(c.attributes[i].id, list(c.attributes[i].value)[:3]) for i in range(c.count)]
        self.launches.append((function, geometry, c.shared, c.stream, values, attributes))
        return self.code


def addresses(values: Sequence[bytes]) -> list[int]:
    return [int.from_bytes(v[:8], "little") for v in values]


def executable(
    driver: Driver, manifest: Manifest | None = None, workspace: int | None = None
) -> Executable:
    """An artifact whose compiled launcher takes tensors on the host."""
    program = Executable(small_artifact())
    manifest = manifest or program.manifest
    functions = range(100, 100 + len(manifest.kernels))
    launcher = fast.native_launcher(manifest, functions, HOST, driver.address)
    program._contexts.ready = True
    program._fast[-1] = fast.FastCalls(
        launcher, manifest, -1, program._contexts,
        None if workspace is None else lambda stream: Room(workspace),
        lambda: -1, lambda device: 77,
    )  # fmt: skip
    return program


def test_a_call_launches_with_the_tensors() -> None:
    manifest = small_artifact().manifest
    driver = Driver(manifest)
    program = executable(driver, workspace=4096)
    x = torch.randn(8, 8)
    (y,) = program(x)
    places = {"input": x.data_ptr(), "output": y.data_ptr(), "workspace": 4096 + 256}
    for number, kernel in enumerate(manifest.kernels):
        function, geometry, shared, stream, values, attributes = driver.launches[number]
        assert (function, geometry) == (100 + number, (kernel.grid, kernel.block))
        assert (shared, stream, attributes) == (kernel.shared_bytes, 77, [])
        assert addresses(values) == [places[a.kind] + a.offset for a in kernel.arguments]
    assert (y.shape, y.dtype) == (torch.Size(manifest.outputs[0].shape), torch.float32)
    (again,) = program(inputs=[x], out=[y])
    assert again is y
    assert len(driver.launches) == 4


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(8, 9), torch.zeros(8), torch.zeros(8, 8, dtype=torch.float16),
        torch.zeros(8, 8, dtype=torch.int32), torch.zeros(8, 8).t(), torch.zeros(65)[1:].view(8, 8),
        torch.zeros(8, 8, requires_grad=True), torch.zeros(8, 8, device="meta"), 3.0,
    ],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_left_to_python(x: Any) -> None:
    driver = Driver(small_artifact().manifest)
    program = executable(driver)
    assert program._fast_results([x], None) is None
    assert not driver.launches


def test_messages_are_those_of_python() -> None:
    program = executable(Driver(small_artifact().manifest))
    with pytest.raises(ArgumentShapeError, match="expected shape"):
        program(torch.zeros(8, 9))


def test_wrong_counts_and_overlaps() -> None:
    driver = Driver(small_artifact().manifest)
    program = executable(driver)
    x = torch.zeros(8, 8)
    assert program._fast_results([x, x], None) is None
    assert program._fast_results([x], [x]) is None  # it would write to what it reads
    assert program._fast_results([], None) is None
    with torch.no_grad():
        weight = torch.nn.Parameter(torch.zeros(8, 8))
        assert program._fast_results([weight], None) is not None
    assert len(driver.launches) == 2


def test_a_thread_without_a_context_goes_the_long_way() -> None:
    driver = Driver(small_artifact().manifest)
    program = executable(driver)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(program._fast_results([torch.zeros(8, 8)], None))
    )
    thread.start()
    thread.join()
    assert found == [None]


def test_errors_of_the_driver() -> None:
    program = executable(Driver(small_artifact().manifest, code=719))
    with pytest.raises(DriverError, match="grid"):
        program(torch.zeros(8, 8))


def several() -> Manifest:
    """Two kernels, the second early and in clusters, with a tensor map and memory between them."""
    manifest = small_artifact().manifest
    view = TensorMap((8, 8), "f32", (4, 8), 0)
    first = replace(
        manifest.kernels[0],
        arguments=(
            Argument("input", 0, 16),
            Argument("workspace", 0),
            Argument("input", 0, 0, view),
        ),
    )
    second = KernelLaunch(
        0, "second", (4, 1, 1), (32, 1, 1), 64,
        (Argument("workspace", 0, 8), Argument("output", 0)), (2, 1, 1), True,
    )  # fmt: skip
    workspace = (WorkspaceBuffer("w", (8, 8), "f32", 256),)
    return replace(manifest, kernels=(first, second), workspace=workspace)


def test_maps_workspaces_and_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def encode(spec: TensorMap, address: int) -> bytes:
        made.append(address)
        return address.to_bytes(8, "little") * 16

    monkeypatch.setattr("mirage.runtime.tensor_maps.encode", encode)
    manifest = several()
    driver = Driver(manifest)
    program = executable(driver, manifest, workspace=4096)
    x, other = torch.zeros(8, 8), torch.zeros(8, 8)
    for tensor in (x, x, other, x):
        (y,) = program(tensor)
        first, second = driver.launches[-2:]
        at = tensor.data_ptr()
        assert addresses(first[4]) == [at + 16, 4096 + 256, at]
        assert addresses(second[4]) == [4096 + 264, y.data_ptr()]
        assert second[5] == [(4, [2, 1, 1]), (6, [1, 0, 0])]
    assert made == [x.data_ptr(), other.data_ptr()]


def test_threads_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch has the map and the address of one tensor, whoever else calls meanwhile."""
    monkeypatch.setattr(
        "mirage.runtime.tensor_maps.encode", lambda spec, at: at.to_bytes(8, "little") * 16
    )
    manifest = several()
    driver = Driver(manifest)
    program = executable(driver, manifest, workspace=4096)

    def work() -> None:
        program._contexts.ready = True
        x = torch.zeros(8, 8)
        for _ in range(50):
            program(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    firsts = [addresses(values) for function, *_, values, _ in driver.launches if function == 100]
    assert len(firsts) == 200
    assert all(a == c + 16 for a, _, c in firsts)


def test_element_types() -> None:
    kinds = {
        "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
        "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
        "i64": torch.int64,
    }  # fmt: skip
    for name, dtype in kinds.items():
        spec = TensorSpec("x", (8, 8), (8, 1), name)
        manifest = replace(small_artifact().manifest, inputs=(spec,))
        program = executable(Driver(manifest), manifest)
        for other in kinds.values():
            found = program._fast_results([torch.zeros(8, 8, dtype=other)], None)
            assert (found is not None) == (other is dtype), (name, other)
