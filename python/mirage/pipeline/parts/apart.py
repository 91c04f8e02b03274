"""Candidates verified by a worker, while the process that asks goes on.

Verification of one candidate of one part has little that workers could share. So the first
candidates of several parts are verified beside each other, each by one worker from its beginning
to its end, and beside the search for better ones.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass

from mirage.cache import shared_store
from mirage.pipeline.verify import verdicts_of
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.positions import Iota
from mirage.verify import Verdict, VerifyOptions
from mirage.verify.candidates.together import Terms
from mirage.verify.pieces.kernel_by_kernel import Piece, Shown
from mirage.verify.pieces.ledger import Ledger

Found = tuple[list[Verdict], list[tuple[Piece, Shown]], float]
"""A verdict for each candidate, what was found out about pieces, and the seconds that it took."""


@dataclass(frozen=True)
class Request:
    """Candidates to be verified until ``deadline`` (seconds since the epoch), and in so many
    ``seconds`` from when a worker begins. ``known`` are inputs that are positions, ``shown`` pieces
    that are known; ``stored``: also those on disk."""

    op: Alternatives
    known: Mapping[int, Iota]
    options: VerifyOptions
    shown: Mapping[str, Shown]
    stored: bool
    deadline: float
    seconds: float


class _Noting(Ledger):
    """Notes what is added."""

    def __init__(self, request: Request) -> None:
        super().__init__(shared_store() if request.stored else None)
        self.given = request.shown
        self.added: list[tuple[Piece, Shown]] = []

    def __getitem__(self, key: str) -> Shown:
        return self.given[key] if key in self.given else super().__getitem__(key)

    def add(self, piece: Piece, shown: Shown) -> None:
        super().add(piece, shown)
        self.added.append((piece, shown))


def verified(request: Request) -> Found:
    """Runs in a worker."""
    start = time.perf_counter()
    ledger = _Noting(request)
    until = min(request.deadline, time.time() + request.seconds)
    terms = Terms(request.options, ledger, until)
    verdicts = verdicts_of(request.op, request.known, terms)
    return verdicts, ledger.added, time.perf_counter() - start


class Awaited:
    """What a worker verifies; without an ``executor``, or where its workers die, it is done when it
    is asked for."""

    def __init__(self, request: Request, executor: Executor | None) -> None:
        self.request = request
        self._future: Future[Found] | None = None
        if executor is not None:
            with contextlib.suppress(BrokenExecutor):
                self._future = executor.submit(verified, request)

    @property
    def under_way(self) -> bool:
        """Whether a worker has not done it yet."""
        return self._future is not None and not self._future.done()

    def result(self) -> Found:
        """What was found, once that is known."""
        if self._future is not None:
            with contextlib.suppress(BrokenExecutor):
                return self._future.result()
        return verified(self.request)
