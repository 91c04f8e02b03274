"""Several candidates of one program verified together: the pieces that they share are shown once,
and workers share the work."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.exact import accounts_of, show
from mirage.verify.kernel_by_kernel import Hint, Piece, Shown
from mirage.verify.ledger import Ledger
from mirage.verify.time_limit import OutOfTime, time_limit
from mirage.verify.verdict import Evidence, Kind, Verdict
from mirage.verify.verifier import VerifyOptions, speaks_of, verify

_T = TypeVar("_T")

PIECE_SECONDS = 10.0
"""Processor time: a piece that takes longer is not shown."""
PIECE_SHARE = 0.5
"""The same as a share of the time that is left, so that what cannot be shown in time costs its own
kernel only."""


@dataclass(frozen=True)
class Claim:
    """A candidate, and what its tensors are said to hold, if anything is."""

    candidate: KernelGraph
    hint: Hint | None = None


@dataclass(frozen=True)
class Terms:
    """How to verify, what is known of pieces, and when to end (in seconds since the epoch, as the
    clocks of processes differ)."""

    options: VerifyOptions
    ledger: Ledger
    deadline: float = float("inf")


def verify_all(
    reference: KernelGraph, claims: Sequence[Claim], terms: Terms, executor: Executor | None = None
) -> Iterator[Verdict]:
    """A verdict for each candidate, in order. What is not decided at the deadline is unknown.

    Raises what :func:`verify` raises.
    """
    claims = [c if _is_useful(c, reference, terms) else Claim(c.candidate) for c in claims]
    _show_pieces(claims, terms, executor)
    known = dict(terms.ledger)
    jobs = [partial(_verdict, reference, c, terms.options, known, terms.deadline) for c in claims]
    yield from _each(jobs, executor)


def _is_useful(claim: Claim, reference: KernelGraph, terms: Terms) -> bool:
    return claim.hint is not None and terms.options.prove and speaks_of(claim.hint, reference)


def _show_pieces(claims: Sequence[Claim], terms: Terms, executor: Executor | None) -> None:
    """Adds to the ledger what the candidates' verification will ask for. Larger pieces are wanted
    only once it is known that smaller ones cannot be shown."""
    asked: set[str] = set()
    while time.time() < terms.deadline:
        missing: dict[str, Piece] = {}

        def look(piece: Piece, missing: dict[str, Piece] = missing) -> Shown:
            found = terms.ledger.get(piece.key)
            if found is None:
                missing.setdefault(piece.key, piece)
                return Shown(float("-inf"))  # if it is, this is all that is asked for
            return found

        rewritten: set[int] = set()
        for claim in claims:
            if claim.hint is not None:
                accounts_of(claim.hint, claim.candidate, look, rewritten)
        pieces = [p for key, p in missing.items() if key not in asked]
        if not pieces:
            return
        asked.update(p.key for p in pieces)
        jobs = [partial(_shown, p, secrets.randbits(128), terms.deadline) for p in pieces]
        for piece, shown in zip(pieces, _each(jobs, executor), strict=True):
            terms.ledger.add(piece, shown)


def _shown(piece: Piece, seed: int, deadline: float) -> Shown:
    left = deadline - time.time()
    return show(piece, seed, left, min(PIECE_SECONDS, PIECE_SHARE * max(0.0, left)))


def _verdict(
    reference: KernelGraph,
    claim: Claim,
    options: VerifyOptions,
    known: dict[str, Shown],
    deadline: float,
) -> Verdict:
    try:
        with time_limit(deadline - time.time()):
            return verify(reference, claim.candidate, options, claim.hint, known)
    except OutOfTime:
        evidence = Evidence("time", None, "the time was up before anything was decided")
        return Verdict(Kind.UNKNOWN, None, (evidence,), options.seed or 0)


def _each(jobs: Sequence[Callable[[], _T]], executor: Executor | None) -> Iterator[_T]:
    """What the jobs give, in order. If workers die, the rest is done here."""
    done = 0
    if executor is not None and len(jobs) > 1:
        futures: list[Future[_T]] = []
        with contextlib.suppress(BrokenExecutor):
            futures.extend(executor.submit(job) for job in jobs)
        with contextlib.suppress(BrokenExecutor):
            for future in futures:
                yield future.result()
                done += 1
    for job in jobs[done:]:
        yield job()
