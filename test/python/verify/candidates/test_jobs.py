"""Work that is divided among workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from mirage.verify.candidates.jobs import each


@pytest.mark.parametrize("count", [1, 3])
def test_workers_do_all_of_it(count: int) -> None:
    """A single job as well."""
    with ThreadPoolExecutor(1, thread_name_prefix="worker") as pool:
        found = list(each([lambda: threading.current_thread().name] * count, pool))
    assert found == ["worker_0"] * count


def test_without_workers_it_is_done_here() -> None:
    here = threading.current_thread().name
    assert list(each([lambda: threading.current_thread().name], None)) == [here]


class Broken(Executor):
    """Its worker dies after a number of jobs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        if self.left:
            future.set_result(("worker", fn(*args, **kwargs)))
        else:
            future.set_exception(BrokenExecutor())
        self.left = max(0, self.left - 1)
        return future


def test_what_workers_leave_is_done_here() -> None:
    jobs = [lambda n=n: n for n in range(3)]
    assert list(each(jobs, Broken(1))) == [("worker", 0), 1, 2]
    assert list(each(jobs[:1], Broken(0))) == [0]
