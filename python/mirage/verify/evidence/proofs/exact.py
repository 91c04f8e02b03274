"""Whether two programs are the same function of real numbers, decided by small models and proofs.

The attempts start with those that are cheap and say much (a proof for other sizes too) and end with
the expensive ones; the first attempt that decides is the last.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs.attempts import attempts
from mirage.verify.evidence.proofs.freed_inputs import freed, in_roles
from mirage.verify.evidence.proofs.proof import prove, prove_with_signs
from mirage.verify.evidence.proofs.proof_by_tiles import prove_opened
from mirage.verify.evidence.proofs.proof_for_all_sizes import prove_for_extents
from mirage.verify.evidence.proofs.small_model import (
    SmallPair,
    run_small_model,
    small_difference,
    small_pair,
)
from mirage.verify.evidence.proofs.value_by_value import prove_in_segments
from mirage.verify.evidence.samples.floats import Difference
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.normal_form.cumulations import with_shared_weights
from mirage.verify.normal_form.normalize import normalize
from mirage.verify.pieces.kernel_by_kernel import Account, Hint, Piece, Prove, Shown, account_for
from mirage.verify.verdict import Evidence, HoldsFor

ENOUGH_LOG2 = -60.0
"""The chance that a wrong program passes must be below this, as a base-2 logarithm."""
PIECE_LOG2 = -72.0
"""The limit for one piece, so that thousands of pieces together stay below :data:`ENOUGH_LOG2`."""
_FIRST_WORK = LITTLE_WORK // 4
"""The products of terms that a first attempt at a proof may take: small kernels need no more."""
PROOF_SHARE = 0.4
"""The share of the time for a piece that proofs may take; after it, random points are used if
possible."""
_LONG_PROOF = 1.0
"""Seconds of processor time for a proof of a statement that random points have already shown."""
_TURNS = ((True, PROOF_SHARE), (False, 0.1), (True, 1.0))
"""The attempts at a piece: with or without proofs, and the share of its time for each."""
_OPENED_WORK = 1.5e5
"""The elements that a first attempt by tiles inside of kernels may compute; it fails if few tiles
can be shown."""


@dataclass
class Exact:
    """The result of an exact comparison.

    ``agrees`` is None if nothing was decided and False if small programs differ (``difference``
    says where, if float64 shows it too). ``bound`` is the base-2 logarithm of the chance that a
    wrong program passes, None if there is no useful bound.
    """

    bound: float | None = None
    agrees: bool | None = None
    difference: Difference | None = None
    proved: bool = False
    holds_for: HoldsFor | None = None
    evidence: list[Evidence] = field(default_factory=list[Evidence])

    @property
    def shown(self) -> Shown:
        """The result in the form that pieces have."""
        bound = 0.0 if self.agrees is False or self.bound is None else self.bound
        return Shown(float("-inf") if self.proved else bound, tuple(self.evidence), self.holds_for)


def compare_exactly(
    first: KernelGraph,
    second: KernelGraph,
    rng: random.Random,
    *,
    proofs: bool = True,
    max_error_log2: float = ENOUGH_LOG2,
) -> Exact:
    """Compare two normalized programs without composite ops: small programs at random points and
    symbolically, then in float64 if they differ.
    """
    try:
        pair = small_pair(first, second)
    except Irregular as reason:
        found = Exact(evidence=[Evidence("small model", None, str(reason))])
        if proofs and _prove_otherwise(first, second, rng, found.evidence):
            found.agrees = found.proved = True
        return found
    return _compare_small(first, second, pair, rng, proofs, max_error_log2)


def compare_whole(
    first: KernelGraph,
    second: KernelGraph,
    rng: random.Random,
    *,
    proofs: bool = True,
    max_error_log2: float = ENOUGH_LOG2,
) -> Exact:
    """Compare like :func:`compare_exactly`, but first give an input that is read in several roles
    one input for each role."""
    found = _in_roles(first, second, rng, proofs, max_error_log2)
    return found or compare_exactly(
        first, second, rng, proofs=proofs, max_error_log2=max_error_log2
    )


def _in_roles(
    first: KernelGraph, second: KernelGraph, rng: random.Random, proofs: bool, limit: float
) -> Exact | None:
    """Compare with one input for each role. Return the result if it shows equality, else None: a
    difference may exist only for tensors that differ."""
    roles = in_roles(first, second)
    if roles is None:
        return None
    found = compare_exactly(roles.first, roles.second, rng, proofs=proofs, max_error_log2=limit)
    if not found.agrees or (found.bound is None and not found.proved):
        return None
    found.evidence.append(roles.evidence)
    found.holds_for = roles.as_one(found.holds_for)
    return found


def compare_real_functions(first: KernelGraph, second: KernelGraph) -> Exact:
    """Compare by identities that hold for real numbers only; the result is a proof or nothing."""
    try:
        proof = prove_with_signs(small_pair(first, second, signs=True))
    except Irregular as reason:
        return Exact(evidence=[Evidence("small model", None, str(reason))])
    holds = proof.holds is True
    return Exact(None, holds or None, None, holds, evidence=[proof])


def _compare_small(
    first: KernelGraph,
    second: KernelGraph,
    pair: SmallPair,
    rng: random.Random,
    proofs: bool,
    limit: float,
) -> Exact:
    # Where there is a proof, one draw is enough to check it.
    first_limit, fewest = (0.0, 1) if proofs else (limit, 2)
    evidence, bound = run_small_model(pair, rng, first_limit, fewest)
    if evidence.holds is False:
        source = np.random.default_rng(rng.getrandbits(128))
        return Exact(None, False, small_difference(pair, source), evidence=[evidence])
    if not proofs:
        return Exact(bound, evidence.holds, evidence=[evidence])
    proof = prove(pair, most_work=_FIRST_WORK)
    tried = [proof]
    pieces: dict[str, Shown] = {}
    if not proof.holds:
        # a large kernel is proved faster through the values that it computes inside
        tried.append(prove_opened(first, second, rng, _OPENED_WORK, pieces))
        if tried[-1].holds:
            return Exact(bound, True, None, True, evidence=[evidence, tried[-1]])
    general = prove_for_extents(pair)
    if general is not None:
        proof, holds_for = general
        return Exact(bound, True, None, True, holds_for, [evidence, proof])
    if not proof.holds:
        found = run_small_model(pair, rng, limit)
        # where random points decide, a proof adds little
        seconds = math.inf if found[1] is None else _LONG_PROOF
        try:
            with time_limit(math.inf, seconds):
                proof = tried[0] = prove(pair)
                if not proof.holds:
                    tried[-1] = prove_opened(first, second, rng, shown=pieces)
                    proof = tried[-1] if tried[-1].holds else proof
        except OutOfTime:
            note = f"no proof within {seconds:g} s of processor time"
            tried[0] = replace(tried[0], text=note)
        if not proof.holds:
            evidence, bound = found
    if proof.holds:
        return Exact(bound, True, None, True, evidence=[evidence, proof])
    tried = [evidence, *tried]
    if bound is None and evidence.holds is not False:
        tried.append(prove_in_segments(first, second, rng))
        if tried[-1].holds:
            return Exact(None, True, None, True, evidence=tried)
    return Exact(bound, evidence.holds, evidence=tried)


def _prove_otherwise(
    first: KernelGraph, second: KernelGraph, rng: random.Random, evidence: list[Evidence]
) -> bool:
    """Try the proofs for programs whose small model is too large. The last attempt of each kind is
    recorded as evidence."""
    tried: dict[str, Evidence] = {}
    for proof in attempts(first, second, rng):
        tried[proof.name] = proof
        if proof.holds:
            break
    evidence += tried.values()
    return any(proof.holds for proof in tried.values())


def accounts_of(
    hint: Hint, candidate: KernelGraph, prove: Prove, known: set[int] | None = None
) -> tuple[Account, ...]:
    """Account for two steps: the reference's source is the program that was searched, and that
    program is the candidate. ``known`` keeps the programs whose first step is done, for several
    candidates of one program."""
    accounts = [account_for(hint.program, candidate, hint.stored, prove)]
    known = set() if known is None else known
    if hint.program is not hint.source and id(hint.program) not in known:
        accounts.insert(0, account_for(hint.source, hint.program, hint.rewritten, prove))
        known.add(id(hint.program))
    return tuple(accounts)


def summary(accounts: Sequence[Account]) -> Exact:
    """Combine accounts: all outputs are equal if each account holds, and the chances of error add
    up."""
    shown = [entry for a in accounts for entry in a.shown if not entry[0].trivial]
    failed = [entry for a in accounts for entry in a.failed]
    if len(shown) + len(failed) == 1:
        ((_, only),) = (*shown, *failed)
        proved = only.bound_log2 == float("-inf")
        return Exact(
            None if proved or not only.holds else only.bound_log2,
            True if only.holds else None,
            proved=proved,
            holds_for=only.holds_for,
            evidence=list(only.evidence),
        )
    name = "kernel by kernel"
    pieces = [_account_json(piece, s) for piece, s in (*shown, *failed)]
    if failed:
        piece, why = failed[0]
        reason = why.evidence[-1].text if why.evidence else "nothing was tried"
        text = f"{len(failed)} of {len(pieces)} pieces are not shown; {_words(piece)}: {reason}"
        return Exact(evidence=[Evidence(name, None, text, {"pieces": pieces})])
    proved = sum(s.bound_log2 == float("-inf") for _, s in shown)
    if proved == len(shown):
        text = f"{len(shown)} pieces, all proved"
        return Exact(
            None, True, proved=True, evidence=[Evidence(name, True, text, {"pieces": pieces})]
        )
    chance = math.log2(sum(2.0**s.bound_log2 for _, s in shown))
    text = f"{len(shown)} pieces, {proved} proved, error of the others at most 2^{chance:.1f}"
    evidence = [Evidence(name, True, text, {"pieces": pieces})]
    return Exact(chance if chance <= ENOUGH_LOG2 else None, True, evidence=evidence)


def _words(piece: Piece) -> str:
    """Describe a piece, for people."""
    names = ", ".join(v.name or str(v.type) for v in piece.targets)
    kernels = len(list(launches(piece.ops)))
    return f"what computes {names}" + (f" in {kernels} kernels" if kernels != 1 else "")


def _account_json(piece: Piece, shown: Shown) -> dict[str, Any]:
    proved = shown.bound_log2 == float("-inf")
    return {
        "computes": [v.name or str(v.type) for v in piece.targets],
        "verdict": "proved" if proved else "probable" if shown.holds else "unknown",
        "bound_log2": shown.bound_log2 if shown.holds and not proved else None,
        "rests_on": [e.to_json() for e in shown.evidence],
    }


def other_sizes(first: KernelGraph, second: KernelGraph, seconds: float) -> HoldsFor | None:
    """Return the other sizes at which two normalized programs are equal, if a proof of both as a
    whole gives them within ``seconds`` of processor time; else None."""
    try:
        with time_limit(math.inf, seconds):
            general = prove_for_extents(small_pair(first, second))
    except (Irregular, OutOfTime):
        return None
    return None if general is None else general[1]


def show(
    piece: Piece, seed: int, seconds: float = math.inf, processor_seconds: float = math.inf
) -> Shown:
    """Return whether a piece is the same function on both sides. If attempts at a proof take too
    long, the result of small programs at random points counts. If one of the limits is reached
    before that, the piece is not shown."""
    if piece.trivial:
        return Shown(float("-inf"), (Evidence("the same ops", True, "on the same operands"),))
    given = piece.first, piece.second
    first, second = (normalize(decompose(g)) for g in with_shared_weights(*given) or given)
    rng, limit = random.Random(seed), min(seconds, processor_seconds)
    until, found = time.monotonic() + seconds, Shown(0.0)
    for proofs, share in _TURNS:
        left = min(until - time.monotonic(), share * seconds)
        try:
            with time_limit(left, share * processor_seconds):
                found = _shown(first, second, rng, proofs)
        except OutOfTime:
            continue
        if proofs or found.holds:
            break
    else:
        note = Evidence("time", None, f"no result within {limit:.3g} s")
        return replace(found, evidence=(*found.evidence, note))
    note = Evidence("time", None, f"no proof within {PROOF_SHARE * limit:.3g} s")
    return found if proofs else replace(found, evidence=(*found.evidence, note))


def _shown(first: KernelGraph, second: KernelGraph, rng: random.Random, proofs: bool) -> Shown:
    """Show a normalized piece, without a time limit; see :func:`show`."""
    apart = _in_roles(first, second, rng, proofs, PIECE_LOG2)
    if apart is not None:
        return apart.shown
    shown = Shown(0.0)
    for one, other in freed(first, second):
        shown = compare_exactly(one, other, rng, proofs=proofs, max_error_log2=PIECE_LOG2).shown
        if shown.holds:
            break
    return shown
