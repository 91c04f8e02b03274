"""The verdicts on one mutant of one subject: that of the verifier, and that of the oracle."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from attack_subjects import Subject
from faults.equal_variants import equal_variants
from faults.program_mutants import Faults, Mutant, every_fault, mutants, numbered
from faults.roundings import ROUNDING
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from oracle.evaluator import TooMuchWork
from oracle.judge import FAR, Finding, Judge, place_of
from time_limit import Late, at_most

TWICE = 0.3
"""Share of the mutants that have one more fault."""
EVERY = 1000
"""All situations."""
LONGEST = 30.0
"""Processor time for both verdicts on one mutant; taking longer is noted, but is not a failure."""
LATE = "late"
PATIENCE = 4.0
"""How many times its usual work the oracle does if a mutant is refuted in which it sees no
fault."""


@dataclass(frozen=True)
class Effort:
    """The effort of both sides. ``special``: how many of the situations of models the oracle tries
    on a mutant that is accepted; ``rounding``: the share of faults of structure, which mostly
    change the results, for which the verifier measures rounding errors; ``work``: elements that it
    computes for one test."""

    special: int = 4
    rounding: float = 0.25
    work: float = 5e5


FULL = Effort()


Verify = Callable[[KernelGraph, KernelGraph, VerifyOptions], Verdict]


@dataclass(frozen=True)
class Outcome:
    """The outcome for one mutant. ``finding`` is what the oracle found (see
    :class:`judge.Finding`), ``unseen`` if it is too much work for the oracle, ``late`` if a verdict
    took too long, or empty; ``rough`` is the ratio of its rounding errors to what is promised, if
    that was checked."""

    subject: str
    group: str
    kind: str
    description: str
    key: str  # equal for equal pairs of programs
    variant: bool
    finding: str
    text: str
    rough: float
    verdict: str
    accepted: bool
    fooled: bool  # the verifier's exact layers agree although the programs differ
    seconds: float
    why: str

    @property
    def wrong(self) -> bool:
        """Whether the mutant computes something else."""
        return self.finding in ("different", "undefined")

    @property
    def fine(self) -> bool:
        """Whether the mutant is equal, with rounding errors as promised."""
        return not self.finding and self.rough <= 1.0

    @property
    def failure(self) -> str:
        """The failure of the verdict, or ""."""
        if self.verdict == "crash":
            return "crashed"
        if self.wrong and self.accepted:
            return "wrong_accepted"
        if self.rough > FAR and self.accepted:
            return "rough_accepted"
        if self.verdict == Kind.REFUTED.value and not self.finding:
            return "refuted_without_a_difference"
        return ""


FAILURES = ("wrong_accepted", "rough_accepted", "refuted_without_a_difference", "crashed")


def attack(
    subject: Subject,
    judge: Judge,
    seed: int,
    count: int,
    *,
    variants: bool = False,
    deadline: float = float("inf"),
    effort: Effort = FULL,
    decide: Verify = verify,
    faults: Faults = every_fault,
    first: int | None = None,
    twice: float = TWICE,
) -> Iterator[Outcome]:
    """Outcomes of ``count`` mutants (of those ``faults``, a share of them with one more than they
    have) of one candidate, or of variants that should be equal; none after ``deadline`` (of
    ``time.time``). With ``first`` they are those that start at this number
    (:func:`program_mutants.numbered`)."""
    rng = random.Random(f"{subject.name} {seed} {variants}")
    faults = equal_variants if variants else faults
    seen: set[str] = set()
    some = mutants(subject.candidate, rng, count, faults)
    if first is not None:
        some = numbered(subject.candidate, subject.name, first, count, faults)
    for mutant in some:
        if time.time() > deadline:
            return
        if not variants and rng.random() < twice:
            mutant = _once_more(mutant, rng, faults)
        text = signature(subject.reference) + "\n" + signature(mutant.graph)
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key in seen:
            continue
        seen.add(key)
        yield examine(subject, judge, mutant, key, rng, variants, effort, decide)


def is_accepted(subject: Subject) -> bool:
    """Return whether the verifier accepts the unchanged candidate: otherwise, its variants show
    nothing."""
    options = VerifyOptions(seed=0, work=FULL.work)
    return verify(subject.reference, subject.candidate, options).accepted


def _once_more(mutant: Mutant, rng: random.Random, faults: Faults) -> Mutant:
    for again in mutants(mutant.graph, rng, 1, faults):
        what = f"{mutant.description}; {again.kind}: {again.description}"
        return Mutant(mutant.kind, what, again.graph, {}, ())
    return mutant


def examine(
    subject: Subject,
    judge: Judge,
    mutant: Mutant,
    key: str,
    rng: random.Random,
    variant: bool,
    effort: Effort,
    decide: Verify = verify,
) -> Outcome:
    """Return both verdicts on one mutant."""
    start = time.perf_counter()

    def without(verdict: str, finding: str, why: str) -> Outcome:
        return Outcome(
            subject.name, subject.group, mutant.kind, mutant.description, key, variant,
            finding, "", 0.0, verdict, False, False, time.perf_counter() - start, why[:300],
        )  # fmt: skip

    try:
        with at_most(LONGEST, processor=True):
            return _examined(subject, judge, mutant, key, rng, variant, effort, decide, start)
    except _Crash as crash:  # a finding, not the end
        return without("crash", "", str(crash))
    except Late as late:
        return without(LATE, LATE, str(late))


class _Crash(Exception):
    """The verifier stopped with an exception."""


def _examined(
    subject: Subject,
    judge: Judge,
    mutant: Mutant,
    key: str,
    rng: random.Random,
    variant: bool,
    effort: Effort,
    decide: Verify,
    start: float,
) -> Outcome:
    rounding = variant or mutant.kind in ROUNDING or rng.random() < effort.rounding
    options = VerifyOptions(seed=rng.getrandbits(128), work=effort.work, numerics=rounding)
    try:
        verdict = decide(subject.reference, mutant.graph, options)
    except Exception as error:
        raise _Crash(f"{type(error).__name__}: {error}") from error
    try:
        finding, rough = _found(judge, mutant.graph, verdict, variant, effort)
    except TooMuchWork as reason:
        finding, rough = Finding("unseen", str(reason), "the candidate"), 0.0
    # it may have detected the rounding
    if verdict.accepted and not rounding and finding is not None:
        verdict = decide(subject.reference, mutant.graph, replace(options, numerics=True))
    open_ = [f"{e.name}: {e.text}" for e in verdict.evidence if e.holds is not True]
    return Outcome(
        subject.name,
        subject.group,
        mutant.kind,
        mutant.description,
        key,
        variant,
        finding.kind if finding else "",
        str(finding or ""),
        rough,
        verdict.kind.value,
        verdict.accepted,
        _agree(verdict) and judge.certain(mutant.graph, finding),
        time.perf_counter() - start,
        "" if verdict.accepted or verdict.kind is Kind.REFUTED else "; ".join(open_)[:300],
    )


def _found(
    judge: Judge, graph: KernelGraph, verdict: Verdict, variant: bool, effort: Effort
) -> tuple[Finding | None, float]:
    """Return what the oracle finds, and how rough the candidate is (0 if this is not requested)."""
    finding = judge.quick(graph)
    if finding is not None:
        return finding, 0.0
    refuted = verdict.kind is Kind.REFUTED
    special = EVERY if refuted or (variant and not verdict.accepted) else effort.special
    if refuted or verdict.accepted or variant:
        patience = PATIENCE if refuted else 1.0
        finding = judge.thorough(graph, special, place_of(verdict), patience)
    asked = (verdict.accepted and verdict.numerics_hold is not None) or variant
    if finding is not None or refuted or not asked:
        return finding, 0.0
    rough = judge.rough(graph, special)
    if rough is None or rough.excess <= 1.0:
        return None, 0.0 if rough is None else rough.excess
    return rough, rough.excess


def _agree(verdict: Verdict) -> bool:
    """Return whether models and proofs, which must not miss a difference, find none. (Tests of
    samples at the real sizes may miss one.)"""
    exact = [e for e in verdict.evidence if not e.name.startswith(_ABOUT_NUMBERS)]
    if any(e.holds is False for e in exact):
        return False
    return any(e.holds is True and not e.name.startswith("finite field") for e in exact)


_ABOUT_NUMBERS = ("float64", "rounding errors", "defined", "constants")
