"""The compiled launcher, with a function in place of the driver's and tensors on the host: it
launches the same as Python, and falls back to Python if a tensor is not as expected."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from mirage.runtime.errors import ArgumentShapeError, DriverError
from mirage.runtime.launching import fast
from mirage.runtime.launching.executable import Executable, ready_threads
from mirage.runtime.serialization.manifest import (
    Argument,
    KernelLaunch,
    Manifest,
    TensorMap,
    TensorSpec,
    WorkspaceBuffer,
)
from small_artifacts.host_driver import Driver, addresses, on_host
from small_artifacts.small_artifact import small_artifact


@pytest.fixture(scope="module")
def kind() -> Any:
    """The module that the build compiles; without it these tests fail."""
    from mirage import _launcher  # pyright: ignore[reportAttributeAccessIssue]

    return _launcher.Launcher


@pytest.fixture(autouse=True)
def here(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "compiled", lambda: kind)


def executable(
    driver: Driver, manifest: Manifest | None = None, workspace: int | None = None
) -> Executable:
    """An artifact whose compiled launcher takes tensors on the host."""
    assert manifest is None or manifest is driver.manifest
    return on_host(Executable(small_artifact()), driver, workspace)


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
    assert program.fast_results([x], None) is None
    assert not driver.launches


def test_messages_are_those_of_python() -> None:
    program = executable(Driver(small_artifact().manifest))
    with pytest.raises(ArgumentShapeError, match="expected shape"):
        program(torch.zeros(8, 9))


def test_wrong_counts_and_overlaps() -> None:
    driver = Driver(small_artifact().manifest)
    program = executable(driver)
    x = torch.zeros(8, 8)
    assert program.fast_results([x, x], None) is None
    assert program.fast_results([x], [x]) is None  # it would write to its inputs
    assert program.fast_results([], None) is None
    with torch.no_grad():
        weight = torch.nn.Parameter(torch.zeros(8, 8))
        assert program.fast_results([weight], None) is not None
    assert len(driver.launches) == 2


def test_a_thread_without_a_context_goes_the_long_way() -> None:
    driver = Driver(small_artifact().manifest)
    program = executable(driver)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(program.fast_results([torch.zeros(8, 8)], None))
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


def test_maps_workspaces_and_attributes() -> None:
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
    made = [address for _, address, *_ in driver.encoded]
    assert made == [x.data_ptr(), other.data_ptr(), x.data_ptr()]
    assert driver.encoded[0][0] == 7  # float32
    assert driver.encoded[0][2:] == ((8, 8), (32,), (8, 4), (1, 1), 0, 0, 2, 0)


def test_errors_of_maps() -> None:
    manifest = several()
    program = executable(Driver(manifest, encode_code=1), manifest, workspace=4096)
    for _ in range(2):  # bytes that were not encoded are not accepted as a map
        with pytest.raises(DriverError, match=r"tensor map of TensorMap\(shape=\(8, 8\)"):
            program(torch.zeros(8, 8))


def test_threads_share_a_program() -> None:
    """Each launch has the map and the address of one tensor, regardless of concurrent calls."""
    manifest = several()
    driver = Driver(manifest)
    program = executable(driver, manifest, workspace=4096)

    def work() -> None:
        ready_threads(-1).ready = True
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
        "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
        "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
        "i64": torch.int64,
    }  # fmt: skip
    for name, dtype in kinds.items():
        spec = TensorSpec("x", (8, 8), (8, 1), name)
        manifest = replace(small_artifact().manifest, inputs=(spec,))
        program = executable(Driver(manifest), manifest)
        for other in kinds.values():
            found = program.fast_results([torch.empty(8, 8, dtype=other)], None)
            assert (found is not None) == (other is dtype), (name, other)


def test_inputs_that_kernels_write_to_overlap_no_other() -> None:
    manifest = small_artifact().manifest
    manifest = replace(manifest, inputs=manifest.inputs * 2, updates=(1,))
    driver = Driver(manifest)
    program = executable(driver, manifest)
    memory = torch.zeros(24, 8)
    a, b, c = memory[:8], memory[8:16], memory[4:12]
    for given, fine in (([a, b], True), ([a, c], False), ([a, a], False), ([a, b], True)):
        assert (program.fast_results(given) is not None) == fine


def test_a_program_that_nobody_has_is_gone() -> None:
    """Even though its launcher requests the workspace from it."""
    program = executable(Driver(small_artifact().manifest))
    around = fast.Surroundings(
        -1,
        ready_threads(-1),
        program._workspace,
        lambda: -1,
        lambda device: 77,  # type: ignore[arg-type]
    )
    driver = Driver(program.manifest)
    program._fast[0] = fast.fast_call(program.manifest, (1, 2), 1, driver.functions, around)  # type: ignore[assignment]
    gone = weakref.ref(program)
    del program, around
    gc.collect()
    assert gone() is None


def test_a_launcher_of_another_version_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    fast.compiled.cache_clear()
    try:
        assert fast.compiled() is not None
        fast.compiled.cache_clear()
        monkeypatch.setattr("mirage._launcher.VERSION", 1)
        assert fast.compiled() is None
    finally:
        fast.compiled.cache_clear()
