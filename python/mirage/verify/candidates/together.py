"""Several candidates of one program verified together. Pieces that they share are proved or tested
once, rounding errors are measured in the same situations, and workers share the work."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial

from mirage.rare_collections import rare_collections
from mirage.semantics.bounds.idle_steps import leaves_out_steps
from mirage.semantics.check import InvalidGraph
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.candidates.jobs import each, workers
from mirage.verify.candidates.shared_rounding import Entry, in_order, rounding_of
from mirage.verify.evidence.proofs.exact import accounts_of, show
from mirage.verify.evidence.roundings.situations import Turn
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.pair.examine import examine, speaks_of
from mirage.verify.pair.postponed import REAL_SIZES, Open, Tested, rounding_evidence, with_tests
from mirage.verify.pair.verification import try_piece
from mirage.verify.pieces.kernel_by_kernel import Hint, Pairs, Piece, Shown
from mirage.verify.pieces.ledger import Ledger
from mirage.verify.verdict import Evidence, Kind, Verdict
from mirage.verify.verify_options import SignatureMismatch, VerifyOptions

PIECE_SECONDS = 10.0
"""The processor time for one piece; a piece that takes longer is not shown."""
PIECE_SHARE = 0.5
"""The limit as a share of the time that is left, so that a piece that cannot be shown in time costs
only its own kernel."""


@dataclass(frozen=True)
class Claim:
    """A candidate, and the values that its tensors are claimed to hold, if any."""

    candidate: KernelGraph
    hint: Hint | None = None


@dataclass(frozen=True)
class Terms:
    """How to verify, what is known of pieces, and the deadline (in seconds since the epoch, since
    the clocks of processes differ). ``positions`` are the numbers in inputs that stand for
    positions.
    """

    options: VerifyOptions
    ledger: Ledger
    deadline: float = float("inf")
    positions: Mapping[int, Array] = field(default_factory=dict[int, Array])


def verify_all(
    reference: KernelGraph, claims: Sequence[Claim], terms: Terms, executor: Executor | None = None
) -> Iterator[Verdict]:
    """Yield a verdict for each candidate, in order. A candidate that is undecided at the deadline
    gets "unknown". Raises what :func:`verify` raises.
    """
    claims = [c if _is_useful(c, reference, terms) else Claim(c.candidate) for c in claims]
    _show_pieces(claims, terms, executor)
    known = dict(terms.ledger)
    settled = terms.options, known, terms.positions, terms.deadline
    jobs = [partial(_examined, reference, c, *settled) for c in claims]
    found = list(each(jobs, executor))
    _try_pieces(found, terms, executor)
    _measure(reference, claims, found, terms, executor)
    for verdict in found:
        if isinstance(verdict, Exception):
            raise verdict
        assert isinstance(verdict, Verdict)
        yield verdict


def _is_useful(claim: Claim, reference: KernelGraph, terms: Terms) -> bool:
    if leaves_out_steps(claim.candidate):  # pieces are shown as if all steps were taken
        return False
    return claim.hint is not None and terms.options.prove and speaks_of(claim.hint, reference)


def _show_pieces(claims: Sequence[Claim], terms: Terms, executor: Executor | None) -> None:
    """Add to the ledger the pieces that the candidates' verification will need. Larger pieces are
    tried only after the smaller ones have failed."""
    asked: set[str] = set()
    while time.time() < terms.deadline:
        missing: dict[str, Piece] = {}

        def look(piece: Piece, missing: dict[str, Piece] = missing) -> Shown:
            found = terms.ledger.get(piece.key)
            if found is None:
                missing.setdefault(piece.key, piece)
                return Shown(float("-inf"))  # if it is shown, nothing else is needed
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
        for piece, shown in zip(pieces, each(jobs, executor), strict=True):
            terms.ledger.add(piece, shown)


@rare_collections()
def _shown(piece: Piece, seed: int, deadline: float) -> Shown:
    left = deadline - time.time()
    return show(piece, seed, left, min(PIECE_SECONDS, PIECE_SHARE * max(0.0, left)))


_Found = Verdict | Open | SignatureMismatch | InvalidGraph


@rare_collections()
def _examined(
    reference: KernelGraph,
    claim: Claim,
    options: VerifyOptions,
    known: dict[str, Shown],
    positions: Mapping[int, Array],
    deadline: float,
) -> _Found:
    try:
        with time_limit(deadline - time.time()):
            return examine(reference, claim.candidate, options, claim.hint, known, {}, positions)
    except OutOfTime:
        return _undecided("anything was decided", options)
    except (SignatureMismatch, InvalidGraph) as error:
        return error


def _undecided(before: str, options: VerifyOptions) -> Verdict:
    evidence = Evidence("time", None, f"the time was up before {before}")
    return Verdict(Kind.UNKNOWN, None, (evidence,), options.seed or 0, late=True)


# ---- tests of pieces


def _try_pieces(found: list[_Found], terms: Terms, executor: Executor | None) -> None:
    """Test the pieces of candidates that are too large to be tested whole; equal pieces are tested
    once."""
    tested: dict[str, Tested] = {}
    for place, left in enumerate(found):
        if not isinstance(left, Open) or not left.pieces:
            continue
        missing = {p.key: p for p in left.pieces if p.key not in tested}
        if all(tested[p.key].passed for p in left.pieces if p.key in tested):
            jobs = [
                partial(_tried, p, terms.options, _within(left.stored, p), terms.deadline)
                for p in missing.values()
            ]
            tested.update(
                (key, t) for key, t in zip(missing, each(jobs, executor), strict=True) if t
            )
        found[place] = with_tests(left, tested)


def _within(stored: Pairs, piece: Piece) -> Pairs:
    """Return the claims about the piece's own tensors."""
    tensors = {v for op in piece.ops for v in op.results}
    values = {v for op in piece.first.ops for v in op.results}
    return tuple((p, c) for p, c in stored if p in values and c in tensors)


@rare_collections()
def _tried(piece: Piece, options: VerifyOptions, stored: Pairs, deadline: float) -> Tested | None:
    seed = secrets.randbits(128) if options.seed is None else options.seed
    try:
        with time_limit(deadline - time.time()):
            return try_piece(piece, options, seed, stored)
    except OutOfTime:
        return None


# ---- rounding errors


def _measure(
    reference: KernelGraph,
    claims: Sequence[Claim],
    found: list[_Found],
    terms: Terms,
    executor: Executor | None,
) -> None:
    """Measure the rounding errors of all candidates that still need it, in the same situations."""
    places = [i for i, left in enumerate(found) if isinstance(left, Open)]
    if not places:
        return
    options = terms.options
    turns = workers(executor)
    entries: list[Entry] = []
    for i in places:
        left = found[i]
        assert isinstance(left, Open)
        assert left.verdict.permutation is not None
        order = left.verdict.permutation
        entries.append(Entry(claims[i].candidate, order, claims[i].hint, left.in_cells))
    jobs = [
        partial(
            rounding_of,
            reference,
            entries,
            options,
            Turn(k, turns),
            terms.deadline,
            terms.positions,
        )
        for k in range(turns)
    ]
    measured = list(zip(*each(jobs, executor), strict=True))
    for i, parts in zip(places, measured, strict=True):
        left = found[i]
        assert isinstance(left, Open)
        result = in_order(parts)
        if result.too_large:
            found[i] = _not_measured(left.verdict, result.too_large)
            continue
        if result.cut:
            found[i] = _undecided("its rounding errors were measured", options)
            continue
        evidence = rounding_evidence(result.errors, options.assume)
        found[i] = replace(
            left.verdict,
            evidence=(*left.verdict.evidence, evidence),
            numerics_hold=not result.failed,
            rough=result.rough,
        )


def _not_measured(verdict: Verdict, reason: str) -> Verdict:
    """Return the verdict for a candidate whose rounding errors would take too much work to
    measure."""
    evidence = (*verdict.evidence, Evidence(REAL_SIZES, None, reason))
    return replace(verdict, kind=Kind.UNKNOWN, bound_log2=None, permutation=None, evidence=evidence)
