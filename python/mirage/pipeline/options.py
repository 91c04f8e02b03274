"""Options of the driver, and its errors."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from mirage.compiler.chips import default_chip
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.search import BOUNDS, SearchLimits


class OptionError(MirageError, TypeError):
    """An option that there is not, or a value that it does not take."""


class NothingFoundError(MirageError):
    """There is no program to hand out, or not one artifact; the message says why."""


def _start_worker() -> None:
    """A worker leaves Ctrl-C to the process that started it, and ends with that (on Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


_PR_SET_PDEATHSIG = 1
_PATIENCE = 0.5
"""Seconds that a worker has to end by itself."""


@dataclass(frozen=True)
class OptimizeOptions:
    """How to optimize. Times in seconds.

    ``chip`` is a chip (``sm_90a``) or card (``h200``) of the table, by default this machine's GPU.
    ``budget`` is the time of search, verification and compilation together: when it is used up, the
    best verified program so far is compiled. ``candidates`` are verified, ``finalists`` of them
    compiled.
    ``seed`` makes the search repeatable; ``verify_seed`` the random tests too (by default they
    draw secret numbers). ``numerics`` compares rounding errors with the reference's. ``jobs``
    processes search and verify (by default one for each processor). ``compile`` False stops after
    the choice. ``bounds`` of the search are those of :class:`mirage.search.SearchLimits`, by name.
    ``watch`` is told what happened, in sentences; ``progress`` what is under way."""

    chip: str = field(default_factory=default_chip)
    budget: float = 60.0
    candidates: int = 6
    finalists: int = 4
    seed: int = 0
    verify_seed: int | None = None
    draws: int = 2
    numerics: bool = True
    jobs: int | None = None
    compile: bool = True
    cubin: bool = True
    use_cache: bool = True
    bounds: Mapping[str, int] = field(default_factory=dict[str, int])
    watch: Callable[[str], None] | None = None
    progress: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        target_for(self.chip)
        for name in ("budget", "candidates", "finalists", "draws"):
            if not getattr(self, name) > 0:
                raise OptionError(f"expected a positive {name}, got {getattr(self, name)!r}")
        if self.jobs is not None and not self.jobs > 0:
            raise OptionError(f"expected a positive number of jobs, got {self.jobs!r}")
        unknown = sorted(set(self.bounds) - set(BOUNDS))
        if unknown:
            known = ", ".join(BOUNDS)
            raise OptionError(f"expected bounds among {known}, got {', '.join(unknown)}")
        self.limits(self.candidates)

    @staticmethod
    def of(**options: Any) -> OptimizeOptions:
        """The options with these values. Raises :class:`OptionError` for unknown names."""
        known = [f.name for f in fields(OptimizeOptions)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise OptionError(
                f"expected options among {', '.join(known)}, got {', '.join(unknown)}"
            )
        return OptimizeOptions(**options)

    @contextmanager
    def workers(self) -> Generator[Executor | None]:
        """Processes that share the work; None where there is one only.

        They are forked, so that nothing is imported again and the caller's script needs no guard;
        they use NumPy alone.
        """
        jobs = self.jobs or len(os.sched_getaffinity(0))
        if jobs == 1 or "fork" not in multiprocessing.get_all_start_methods():
            yield None
            return
        context = multiprocessing.get_context("fork")
        before = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker)
        try:
            yield pool
        finally:
            # whoever ends early does not wait for what is still under way
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - before:
                worker.join(_PATIENCE)
                worker.terminate()

    def limits(self, candidates: int) -> SearchLimits:
        """The search's limits. Raises :class:`mirage.search.LimitError`."""
        return SearchLimits(
            budget=self.budget, candidates=candidates, seed=self.seed, **self.bounds
        )

    def say(self, text: str) -> None:
        """Tells the watcher what happened."""
        if self.watch is not None:
            self.watch(text)

    def show(self, text: str) -> None:
        """Tells what is under way."""
        if self.progress is not None:
            self.progress(text)
