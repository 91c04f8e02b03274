"""Kernels solved by the workers of an executor: the same result as without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context

import pytest
from distributed import Client, LocalCluster
from example_programs.search_programs import attention
from mirage.cost import H200
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.signature import signature
from mirage.workloads.served import grouped_attention
from thorough import thorough

planning = sys.modules["mirage.search.superoptimize"]


@contextmanager
def processes() -> Generator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@contextmanager
def dask() -> Generator[Executor]:
    """Two workers of a cluster on this machine, each a process."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        assert len(client.scheduler_info()["workers"]) == 2
        yield executor


@pytest.mark.parametrize("start", [processes, thorough(dask)])
def test_an_executor_changes_nothing(
    start: Callable[[], AbstractContextManager[Executor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SMALL", 0)
    programs = (
        attention(2, 64, 512, 64),
        grouped_attention("rows", 1, 8, 2, 3, 64, 256).graph(),  # its launches read views
    )
    limits = SearchLimits(plans=4)
    with start() as executor:
        for program in programs:
            alone = superoptimize(program, H200, limits)
            together = superoptimize(program, H200, limits, executor)
            assert [signature(c.graph) for c in together.candidates] == [
                signature(c.graph) for c in alone.candidates
            ]
            assert [c.cost.time for c in together.candidates] == [
                c.cost.time for c in alone.candidates
            ]
            # the same kernels were solved, and those that plans request later
            assert together.report.kernels >= alone.report.kernels
            assert together.report.stop is alone.report.stop


class _Dead(Executor):
    """An executor whose workers die: at the first submission, or while they solve."""

    def __init__(self, takes: int) -> None:
        self.left = takes

    def submit(self, fn: object, /, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        if not self.left:
            raise BrokenExecutor
        self.left -= 1
        future = Future[object]()
        future.set_exception(BrokenExecutor())
        return future


@pytest.mark.parametrize("takes", [0, 2])
def test_what_dead_workers_leave_is_solved_here(
    takes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SMALL", 0)
    program = attention(2, 64, 512, 64)
    limits = SearchLimits(plans=4)
    alone = superoptimize(program, H200, limits)
    dead = _Dead(takes)
    left = superoptimize(program, H200, limits, dead)
    assert not dead.left
    assert [signature(c.graph) for c in left.candidates] == [
        signature(c.graph) for c in alone.candidates
    ]
