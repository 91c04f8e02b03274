"""Work that several processes share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import TypeVar

_T = TypeVar("_T")


def workers(executor: Executor | None) -> int:
    """In how many parts work is cut."""
    return len(os.sched_getaffinity(0)) if executor is not None else 1


def each(jobs: Sequence[Callable[[], _T]], executor: Executor | None) -> Iterator[_T]:
    """What the jobs give, in order. If workers die, the rest is done here.

    A single job is a worker's, too: those have one thread for products of matrices, which are small
    here, and take far longer in several threads that wait for each other."""
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
