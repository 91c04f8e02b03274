"""Runs tasks in several processes, any of which may die or get stuck: only its own task is lost.

A process that dies takes the whole pool of :mod:`concurrent.futures` with it, so the tasks that
were begun then are run again, each in a process of its own, and another pool takes the rest. Tasks
are handed out a few at a time, so that few tasks have begun at any time.
"""

from __future__ import annotations

import faulthandler
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from functools import partial
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 2
"""The number of tasks that are handed out at a time, for each process."""


def results(
    job: Callable[[T], R], tasks: Sequence[T], processes: int, seconds: Callable[[T], float]
) -> Iterator[tuple[T, Future[R]]]:
    """Yield each task with its result or exception, in any order. A process whose task takes longer
    than its ``seconds`` is ended, even inside a step that nothing else interrupts. The exception of
    a task whose process died twice is a :class:`BrokenExecutor`."""
    waiting = deque(tasks)
    while waiting:
        lost: list[T] = []
        begun: dict[Future[R], T] = {}
        with ProcessPoolExecutor(processes) as pool:
            while (waiting or begun) and not lost:
                try:
                    while waiting and len(begun) < AHEAD * processes:
                        task = waiting[0]
                        begun[pool.submit(_watched, job, task, seconds(task))] = task
                        waiting.popleft()
                except BrokenExecutor:
                    lost += begun.values()
                    break
                for future in wait(begun, return_when=FIRST_COMPLETED).done:
                    task = begun.pop(future)
                    if isinstance(future.exception(), BrokenExecutor):
                        lost.append(task)
                    else:
                        yield task, future
        if lost:
            lost += (task for task in begun.values() if task not in lost)
            with ThreadPoolExecutor(processes) as threads:
                again = threads.map(partial(_alone, job, seconds), lost)
                yield from zip(lost, again, strict=True)


def _alone(job: Callable[[T], R], seconds: Callable[[T], float], task: T) -> Future[R]:
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(_watched, job, task, seconds(task))


def _watched(job: Callable[[T], R], task: T, seconds: float) -> R:
    """Run a task in this process, which is ended if the task takes too long."""
    faulthandler.dump_traceback_later(max(1.0, seconds), exit=True)
    try:
        return job(task)
    finally:
        faulthandler.cancel_dump_traceback_later()
