"""The compiled launcher with programs of any size: grids, maps, sizes and results are those of each
call's size, and nothing of another size is kept between calls."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
import torch
from mirage.runtime.errors import (
    ArgumentAliasError,
    ArgumentCountError,
    ArgumentShapeError,
    ArgumentSizeError,
    ArgumentTypeError,
    CallError,
    NoGpuError,
)
from mirage.runtime.launching.by_size import SizedExecutable, SizeTable
from mirage.runtime.launching.executable import ready_threads
from mirage.runtime.launching.launch_tensors import LaunchTensors
from mirage.runtime.serialization.manifest import Argument, Manifest, TensorMap
from mirage.runtime.serialization.sizes import at_size
from small_artifacts.host_driver import Driver, addresses, on_host
from small_artifacts.sized_artifact import sized_artifact

BOUNDS = (4, 16)
WORKSPACE = 4096


def table() -> tuple[SizedExecutable, list[Driver]]:
    """Return classes up to 4 and up to 16, called with sizes up to 13, and the driver of each."""
    program = SizedExecutable(SizeTable([sized_artifact(n) for n in BOUNDS], 2, 13))
    drivers = [Driver(e.manifest) for e in program._largest]
    for executable, driver in zip(program._largest, drivers, strict=True):
        on_host(executable, driver, WORKSPACE)
    return program, drivers


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 13])
def test_each_size_launches_what_python_states(size: int) -> None:
    program, drivers = table()
    for other in (13, 2, size):  # regardless of earlier calls
        x = torch.zeros(2 * other, 4)
        (y,) = program(x)
    assert y.shape == (size, 8)
    number = 0 if size <= 4 else 1
    stated = at_size(sized_artifact(BOUNDS[number]).manifest, size)
    places = {"input": x.data_ptr(), "output": y.data_ptr(), "workspace": WORKSPACE + 256}
    launches = drivers[number].launches[-2:]
    for kernel, (_, geometry, _, stream, values, _) in zip(stated.kernels, launches, strict=True):
        assert (geometry, stream) == ((kernel.grid, kernel.block), 77)
        *tensors, told = addresses(values)
        assert told == size
        assert tensors == [places[a.kind] + a.offset for a in kernel.arguments[:-1]]
    assert not program._known  # nothing is kept for a size


def test_results_that_are_given() -> None:
    program, drivers = table()
    x, y = torch.zeros(10, 4), torch.zeros(5, 8)
    assert program(x, out=[y])[0] is y
    with pytest.raises(ArgumentShapeError, match=r"output 0 \(y\): expected shape \(5, 8\)"):
        _out(program, x, torch.zeros(6, 8))
    memory = torch.zeros(16, 8)
    x = memory[:4].view(8, 4)
    assert program._fast_results([x], [memory[3:7]]) is None  # they overlap by a row
    with pytest.raises(ArgumentAliasError):
        _out(program, x, memory[3:7])
    assert program._fast_results([x], [memory[4:8]]) is not None  # as at size 13
    assert len(drivers[1].launches) == 2


def _out(program: SizedExecutable, x: torch.Tensor, y: torch.Tensor) -> None:
    """Return Python's description of a result."""
    tensors = LaunchTensors(program._found([x]).manifest)
    tensors.written((y,), [x.data_ptr()], -1)


BAD: tuple[tuple[Any, type[CallError]], ...] = (
    ([torch.zeros(28, 4)], ArgumentSizeError), ([torch.zeros(2, 4)], ArgumentSizeError),
    ([torch.zeros(0, 4)], ArgumentSizeError), ([torch.zeros(7, 4)], ArgumentShapeError),
    ([torch.zeros(6, 5)], ArgumentShapeError), ([torch.zeros(6)], ArgumentShapeError),
    ([torch.zeros(())], ArgumentShapeError), ([], ArgumentCountError), ([3], ArgumentTypeError),
    ([torch.zeros(6, 4), torch.zeros(1)], ArgumentCountError),
    ([torch.zeros(6, 4, dtype=torch.float16)], ArgumentTypeError),
)  # fmt: skip


@pytest.mark.parametrize(("given", "error"), BAD)
def test_what_does_not_fit_has_the_same_errors(given: Any, error: type[CallError]) -> None:
    program, drivers = table()
    program(torch.zeros(6, 4))
    with pytest.raises(error) as fast:
        program(inputs=given)
    pure = SizedExecutable(program.table)
    with pytest.raises(error) as slow:
        pure(inputs=given)
    assert str(fast.value) == str(slow.value)
    assert sum(len(d.launches) for d in drivers) == 2


def test_inputs_of_several_sizes_are_refused() -> None:
    artifact = sized_artifact(16)
    m = artifact.manifest
    assert m.size is not None
    inputs = (replace(m.inputs[0], name="w"), m.inputs[0], replace(m.outputs[0], name="z"))
    first = replace(m.kernels[0], arguments=(Argument("input", 1), *m.kernels[0].arguments[1:]))
    m = replace(m, inputs=inputs, kernels=(first, m.kernels[1]),
                size=replace(m.size, inputs=(1, 2)))  # fmt: skip
    program = SizedExecutable(SizeTable([replace(artifact, manifest=m)], 1, 16))
    on_host(program._largest[0], Driver(m), WORKSPACE)
    w = torch.zeros(32, 4)  # has no rows of the size
    (y,) = program(w, torch.zeros(6, 4), torch.zeros(3, 8))
    assert y.shape == (3, 8)
    for third in (torch.zeros(4, 8), torch.zeros(3, 9)):
        assert program._fast_results([w, torch.zeros(6, 4), third], None) is None
    assert program._fast_results([w[:30], torch.zeros(6, 4), torch.zeros(3, 8)], None) is None
    with pytest.raises(ArgumentShapeError, match="expected inputs of one size, got 3 of x, 4 of z"):
        program(w, torch.zeros(6, 4), torch.zeros(4, 8))


def mapped() -> Manifest:
    """The first kernel reads through a map with rows, the second through one of a tensor without
    rows."""
    m = sized_artifact(16).manifest
    rows = TensorMap((32, 4), "f32", (8, 4), 128)
    workspace = m.workspace[0]
    fixed = TensorMap((8, 4), "f32", (4, 4), 0)
    first = replace(m.kernels[0], arguments=(Argument("input", 0, 0, rows), Argument("size", 0)))
    second = replace(
        m.kernels[1],
        arguments=(Argument("workspace", 1, 0, fixed), *m.kernels[1].arguments[1:]),
    )
    more = (workspace, replace(workspace, name="u", shape=(8, 4), offset=1024))
    return replace(m, kernels=(first, second), workspace=more)


def test_tensor_maps_have_the_rows_that_are_there() -> None:
    m = mapped()
    driver = Driver(m)
    program = SizedExecutable(SizeTable([replace(sized_artifact(16), manifest=m)], 1, 16))
    on_host(program._largest[0], driver, WORKSPACE)
    memory = torch.zeros(32, 4)
    for size in (3, 3, 5, 3):  # the same address
        program(memory[: 2 * size])
    maps = [(shape, swizzle) for _, _, shape, *_, swizzle, _, _ in driver.encoded]
    assert maps == [((4, 6), 3), ((4, 8), 0), ((4, 10), 3), ((4, 6), 3)]


def test_threads_call_with_sizes_of_their_own() -> None:
    """Each pair of launches has the grid, the size and the tensors of one call."""
    program, drivers = table()
    kernels = program._largest[1].manifest.kernels

    def work(size: int) -> None:
        ready_threads(-1).ready = True
        x = torch.zeros(2 * size, 4)
        for _ in range(40):
            assert program(x)[0].shape == (size, 8)

    threads = [threading.Thread(target=work, args=(size,)) for size in (5, 8, 11, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launches = drivers[1].launches
    assert len(launches) == 2 * 4 * 40
    for first, second in zip(launches[::2], launches[1::2], strict=True):
        size = addresses(first[4])[-1]
        assert (first[0], second[0]) == (100, 101)
        assert first[1][0] == (2 * size, 1, 1)
        assert addresses(second[4])[-1] == size
        assert second[1][0] == kernels[1].grid


@pytest.mark.skipif(torch.cuda.is_available(), reason="tensors on the host are refused there")
def test_a_thread_without_a_context_goes_the_long_way() -> None:
    program, drivers = table()
    errors: list[Exception] = []

    def work() -> None:
        try:
            program(torch.zeros(6, 4))
        except NoGpuError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert not drivers[0].launches


def test_launches_that_are_stated_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compiled launcher they are kept for the last few sizes."""
    monkeypatch.setattr("mirage.runtime.launching.by_size._KEPT", 3)
    program = SizedExecutable(SizeTable([sized_artifact(16)], 1, 16))
    first = program.executable([torch.zeros(2, 4)])
    assert program.executable([torch.zeros(2, 4)]) is first
    for size in range(2, 12):
        found = program.executable([torch.zeros(2 * size, 4)])
        assert len(program._known) <= 3
        assert found._workspaces is first._workspaces
    again = program.executable([torch.zeros(2, 4)])
    assert again is not first
    assert again.manifest == first.manifest
