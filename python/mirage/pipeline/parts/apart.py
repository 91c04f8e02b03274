"""Candidates verified by a worker while the main process continues.

The verification of one candidate of one part offers little work that workers could share. So the
first candidates of several parts are verified in parallel, each by one worker from start to end,
and in parallel with the search for better ones.
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
"""A verdict for each candidate, the results for pieces, and the seconds that it took."""


@dataclass(frozen=True)
class Request:
    """Candidates to be verified before ``deadline`` (seconds since the epoch), and within
    ``seconds`` after a worker starts. ``known`` are inputs that are positions, and ``shown`` are
    known pieces; with ``stored``, also those on disk."""

    op: Alternatives
    known: Mapping[int, Iota]
    options: VerifyOptions
    shown: Mapping[str, Shown]
    stored: bool
    deadline: float
    seconds: float


class _Noting(Ledger):
    """A ledger that notes the results that are added."""

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
    """Verify the candidates of a request; runs in a worker."""
    start = time.perf_counter()
    ledger = _Noting(request)
    until = min(request.deadline, time.time() + request.seconds)
    terms = Terms(request.options, ledger, until)
    verdicts = verdicts_of(request.op, request.known, terms)
    return verdicts, ledger.added, time.perf_counter() - start


class Awaited:
    """A verification in a worker. Without an ``executor``, or if its workers die, it runs when the
    result is requested."""

    def __init__(self, request: Request, executor: Executor | None) -> None:
        self.request = request
        self._future: Future[Found] | None = None
        if executor is not None:
            with contextlib.suppress(BrokenExecutor):
                self._future = executor.submit(verified, request)

    @property
    def under_way(self) -> bool:
        """Whether a worker has not finished it yet."""
        return self._future is not None and not self._future.done()

    def result(self) -> Found:
        """Return the result, waiting for it if necessary."""
        if self._future is not None:
            with contextlib.suppress(BrokenExecutor):
                return self._future.result()
        return verified(self.request)
