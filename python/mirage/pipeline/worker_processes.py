"""Processes that share the work of an optimization.

They are forks of this process, so that nothing is imported again. A fork needs as much memory as
this process may write to, at least on paper, and a process that holds a model with its weights may
have asked for more than half of the machine's. In this case, new interpreters are started, which
need no such memory; they do not run the caller's script again, so it needs no guard in either case.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from mirage.spare_memory import keep_spare_memory

log = logging.getLogger("mirage.pipeline")

T = TypeVar("T")
P = ParamSpec("P")

_ENDING = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
_PATIENCE = 0.5
"""The seconds that workers have to end by themselves."""


@contextmanager
def worker_processes(count: int) -> Generator[Executor | None]:
    """Yield a pool of this number of processes, or None if the number is 1 or if none can be
    started."""
    methods = multiprocessing.get_all_start_methods()
    if count == 1 or "fork" not in methods:
        yield None
        return
    before: set[BaseProcess] = set(multiprocessing.active_children())
    pool = _started(count, before)
    if pool is None:
        yield None
        return
    try:
        yield pool
    finally:
        # a caller that ends early does not wait for unfinished work
        pool.shutdown(wait=False, cancel_futures=True)
        _end(before, _PATIENCE)


def _started(count: int, before: set[BaseProcess]) -> Executor | None:
    """Return a pool of processes, of which at least one runs; None if there is no room for one."""
    try:
        return _pool(count, "fork", before)
    except OSError as error:  # no memory for a copy of this process, no files, or no shared memory
        refused = error
    try:
        pool = _pool(count, "spawn", before)
    except OSError as error:
        log.warning(
            "no processes can be started to share the work (%s): one does it all",
            error.strerror or error,
        )
        return None
    log.info(
        "this process cannot be copied (%s): new ones share the work", refused.strerror or refused
    )
    return pool


def _pool(count: int, method: str, before: set[BaseProcess]) -> Executor:
    """Return a pool whose first processes have been started. Raises ``OSError``, with all of them
    ended."""
    try:
        pool = _Workers(count, multiprocessing.get_context(method), _start_worker)
        for _ in range(count):  # all of them start now, so that failures are seen now
            pool.submit(_be_there)
    except OSError:
        _end(before, 0.0)
        raise
    return pool


class _Workers(ProcessPoolExecutor):
    """A pool whose processes start while signals wait. An exception that a handler raises during a
    fork would be lost: Python ignores exceptions there."""

    def __init__(self, count: int, context: BaseContext, initializer: Callable[[], None]) -> None:
        super().__init__(count, context, initializer)
        self._is_new = context.get_start_method() != "fork"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            with _without_script() if self._is_new else contextlib.nullcontext():
                return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_script() -> Generator[None]:
    """Start new interpreters as if there were no script: they would run it first."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _start_worker() -> None:
    """Set up a worker process. It leaves Ctrl-C to its parent and ends with it (on Linux). It uses
    one thread for matrix products, since there is a worker for each core. Its garbage collector
    skips inherited objects, since visiting them would copy their memory. Its parent, which uses the
    same cache, reports errors of the cache."""
    gc.freeze()
    logging.getLogger("mirage.cache").setLevel(logging.ERROR)
    threadpool_limits(1)
    keep_spare_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _be_there() -> None:
    """Do nothing; a pool starts its processes when it gets its first work."""


def _end(before: set[BaseProcess], patience: float) -> None:
    """End the processes that this one has started since, within this number of seconds."""
    until = time.monotonic() + patience
    for worker in {*multiprocessing.active_children()} - before:
        worker.join(max(0.0, until - time.monotonic()))
        worker.terminate()
