"""Repeated calls with the same addresses become one graph with the launches of the earlier calls;
any other call is launched kernel by kernel."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
import torch
from mirage.runtime.errors import DriverError
from mirage.runtime.launching import fast
from mirage.runtime.launching.by_size import SizedExecutable, SizeTable
from mirage.runtime.launching.executable import Executable
from mirage.runtime.serialization.manifest import Argument, Manifest, TensorMap
from small_artifacts.host_driver import Driver, Graphs, on_host
from small_artifacts.sized_artifact import sized_artifact
from small_artifacts.small_artifact import small_artifact

PLAIN = 3
"""The number of calls before a recording."""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage import _launcher  # pyright: ignore[reportAttributeAccessIssue]

    monkeypatch.setattr(fast, "compiled", lambda: _launcher.Launcher)


def longer(manifest: Manifest, times: int = 2) -> Manifest:
    """Return a program with the same kernels several times."""
    return replace(manifest, kernels=manifest.kernels * times)


def program_of(driver: Driver) -> Executable:
    return on_host(Executable(small_artifact()), driver, 4096)


def started(driver: Driver) -> list[Any]:
    """Return the graphs that were started: their streams, and launches without theirs."""
    assert driver.graphs is not None
    return [(stream, without_streams(launches)) for stream, launches in driver.graphs.started]


def without_streams(launches: list[Any]) -> list[Any]:
    return [(*launch[:3], *launch[4:]) for launch in launches]


def recorded(program: Executable) -> int:
    (call,) = program._fast.values()
    return call.__self__.recorded()  # type: ignore[attr-defined]


def test_a_call_that_comes_again_is_one_graph() -> None:
    driver = Driver(longer(small_artifact().manifest), graphs=Graphs())
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for _ in range(PLAIN):
        program(x, out=[y])
    assert len(driver.launches) == 4 * PLAIN
    assert (recorded(program), started(driver)) == (0, [])
    for _ in range(5):
        assert program(x, out=[y])[0] is y
    assert len(driver.launches) == 4 * PLAIN  # no kernel is launched by itself any more
    assert recorded(program) == 1
    assert started(driver) == [(77, without_streams(driver.launches[:4]))] * 5
    assert driver.graphs is not None
    assert driver.graphs.mode == 0  # unchanged


def test_other_addresses_and_streams_are_launched() -> None:
    driver = Driver(longer(small_artifact().manifest), graphs=Graphs())
    program = program_of(driver)
    x, y, other = (torch.zeros(8, 8) for _ in range(3))
    for _ in range(PLAIN + 1):
        program(x, out=[y])
    before = len(driver.launches)
    for given, out in ((other, y), (x, other)):
        program(given, out=[out])
    driver.stream = 78
    program(x, out=[y])
    assert len(driver.launches) == before + 12
    assert [launch[3] for launch in driver.launches[before:]] == [77] * 8 + [78] * 4
    driver.stream = 77
    program(x, out=[y])
    assert len(started(driver)) == 2


def test_a_graph_that_is_captured_gets_the_kernels() -> None:
    graphs = Graphs()
    driver = Driver(longer(small_artifact().manifest), graphs=graphs)
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for _ in range(PLAIN + 1):
        program(x, out=[y])
    graphs.capturing.add(77)
    before = len(driver.launches)
    program(x, out=[y])
    assert len(driver.launches) == before + 4
    assert len(graphs.started) == 1


@pytest.mark.parametrize("cluster", [None, (2, 1, 1)])
def test_a_part_of_a_captured_graph_starts_before_the_last_one_ends(
    cluster: tuple[int, int, int] | None,
) -> None:
    """Only there, and only if nothing else was launched in between: the first kernel."""
    graphs, manifest = Graphs(), longer(small_artifact().manifest)
    kernels = tuple(replace(k, dependent=True, cluster=cluster) for k in manifest.kernels)
    driver = Driver(replace(manifest, kernels=kernels), graphs=graphs)
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    clusters = [] if cluster is None else [(4, list(cluster))]
    early = [*clusters, (6, [1, 0, 0])]

    def attributes(follows: bool) -> list[Any]:
        program(x, out=[y], follows=follows)
        return [launch[5] for launch in driver.launches[-4:]]

    assert attributes(True) == [clusters, early, early, early]
    graphs.capturing.add(77)
    assert attributes(True) == [early] * 4
    assert attributes(False) == [clusters, early, early, early]
    graphs.capturing.clear()
    for _ in range(PLAIN):
        program(x, out=[y], follows=True)
    (_, launches), *_ = started(driver)
    assert [launch[4] for launch in launches] == [clusters, early, early, early]


def test_tensor_maps_are_those_of_the_recording() -> None:
    manifest = small_artifact().manifest
    view = TensorMap((8, 8), "f32", (4, 8), 0)
    first = replace(manifest.kernels[0], arguments=(Argument("input", 0, 0, view),) * 2)
    driver = Driver(replace(manifest, kernels=(first, manifest.kernels[1]) * 2), graphs=Graphs())
    program = program_of(driver)
    xs = [torch.zeros(8, 8) for _ in range(2)]
    y = torch.zeros(8, 8)
    for _ in range(PLAIN + 2):
        for x in xs:
            program(x, out=[y])
    assert recorded(program) == 2
    for number, (_, launches) in enumerate(started(driver)):
        assert launches == without_streams(driver.launches[4 * (number % 2) :][:4])
    assert len(started(driver)) == 4


@pytest.mark.parametrize(
    "refused", ["exchangeMode", "createStream", "begin", "end", "instantiate", "isCapturing"]
)
def test_what_the_driver_refuses_is_launched(refused: str) -> None:
    graphs = Graphs(refused)
    driver = Driver(longer(small_artifact().manifest), graphs=graphs)
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for _ in range(PLAIN + 5):
        program(x, out=[y])
    assert len(driver.launches) == 4 * (PLAIN + 5)
    assert recorded(program) == (0 if refused == "isCapturing" else -1)
    assert (graphs.mode, graphs.started, graphs.alive) == (0, [], set())
    if refused != "isCapturing":
        assert graphs.calls.count(refused) == 1  # it is not tried again


def test_a_launch_that_fails_while_it_is_recorded() -> None:
    graphs = Graphs()
    driver = Driver(longer(small_artifact().manifest), graphs=graphs)
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for _ in range(PLAIN):
        program(x, out=[y])
    driver.code = 719
    with pytest.raises(DriverError, match="launch of kernel 'copy'"):
        program(x, out=[y])
    assert (recorded(program), graphs.mode, graphs.recording) == (-1, 0, None)


def test_the_error_of_a_graph_says_what_it_is_of() -> None:
    driver = Driver(longer(small_artifact().manifest), graphs=Graphs("start"))
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for _ in range(PLAIN):
        program(x, out=[y])
    with pytest.raises(DriverError, match="launch of the 4 kernels of 'twice'"):
        program(x, out=[y])


def test_there_are_so_many_and_all_end_with_the_program() -> None:
    graphs = Graphs()
    driver = Driver(longer(small_artifact().manifest), graphs=graphs)
    program = program_of(driver)
    x = torch.zeros(8, 8)
    results = [torch.zeros(8, 8) for _ in range(70)]
    for y in results:
        for _ in range(PLAIN + 1):
            program(x, out=[y])
    assert recorded(program) == 64  # later ones must be repeated more often
    for _ in range(400):
        program(x, out=[results[-1]])
    assert recorded(program) == 65
    assert len(graphs.alive) < 64
    program._fast.clear()
    del program
    gc.collect()
    assert not graphs.alive
    assert graphs.calls[-1] == "destroyStream"


def test_short_programs_are_not_recorded() -> None:
    driver = Driver(small_artifact().manifest, graphs=Graphs())
    program = program_of(driver)
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for _ in range(PLAIN + 2):
        program(x, out=[y])
    assert (len(driver.launches), recorded(program)) == (2 * (PLAIN + 2), -1)


def test_each_size_has_its_own() -> None:
    """Even though the addresses are the same."""
    artifact = sized_artifact(16)
    artifact = replace(artifact, manifest=longer(artifact.manifest))
    program = SizedExecutable(SizeTable([artifact], 2, 16))
    (largest,) = program._largest
    driver = Driver(largest.manifest, graphs=Graphs())
    on_host(largest, driver, 4096)
    memory, out = torch.zeros(32, 4), torch.zeros(16, 8)
    for size in (5, 7) * (PLAIN + 2):
        program(memory[: 2 * size], out=[out[:size]])
    plain = [without_streams(driver.launches[4 * n :][:4]) for n in range(2)]
    assert plain[0] != plain[1]
    assert started(driver) == [(77, plain[0]), (77, plain[1])] * 2


def test_graphs_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __getattr__(self, name: str) -> Any:
            import ctypes

            return ctypes.CFUNCTYPE(None)(lambda: None)

    monkeypatch.setattr(fast.ctypes, "CDLL", lambda name: Library())
    monkeypatch.setenv(fast.GRAPHS, "0")
    fast.driver_functions.cache_clear()
    try:
        assert fast.driver_functions().graphs == ()
        fast.driver_functions.cache_clear()
        monkeypatch.delenv(fast.GRAPHS)
        assert len(fast.driver_functions().graphs) == 10
    finally:
        fast.driver_functions.cache_clear()
