"""Work that is shared among several processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import TypeVar

_T = TypeVar("_T")


def workers(executor: Executor | None) -> int:
    """Return the number of parts that work is cut into."""
    return len(os.sched_getaffinity(0)) if executor is not None else 1


def each(jobs: Sequence[Callable[[], _T]], executor: Executor | None) -> Iterator[_T]:
    """Yield the results of the jobs, in order. If workers die, this process runs the remaining
    jobs.

    A single job also goes to a worker. Workers use one thread for products of matrices; products
    are small here, and several threads would spend most of their time waiting for each other."""
    done = 0
    if executor is not None and jobs:
        futures: list[Future[_T]] = []
        with contextlib.suppress(BrokenExecutor):
            futures.extend(executor.submit(job) for job in jobs)
        with contextlib.suppress(BrokenExecutor):
            for future in futures:
                yield future.result()
                done += 1
    for job in jobs[done:]:
        yield job()
