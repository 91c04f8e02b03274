"""A verdict for each candidate; candidates that are not equivalent are dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import count

from mirage.pipeline.errors import StageError
from mirage.search import searched
from mirage.semantics.alternatives import (
    Alternatives,
    VerdictNote,
    kept_of,
    result_values,
    with_parts,
)
from mirage.semantics.bounds.idle_steps import positions_of
from mirage.semantics.check import InvalidGraph
from mirage.semantics.positions import Iota
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify import Kind, SignatureMismatch, Verdict, VerifyOptions
from mirage.verify.candidates.together import Claim, Terms, verify_all
from mirage.verify.candidates.with_steps import in_their_steps
from mirage.verify.pieces.kernel_by_kernel import Hint
from mirage.verify.pieces.ledger import Ledger
from mirage.verify.shared_inputs.free_positions import numbers_of
from mirage.verify.shared_inputs.steps_left_out import with_all_steps


@dataclass(frozen=True)
class Checked:
    """The verdict on one candidate. ``index`` counts the candidates of its part, from 0."""

    part: int
    index: int
    verdict: Verdict

    @property
    def kept(self) -> bool:
        """Whether the candidate is kept: it is equivalent with a stated bound, and its rounding
        errors are acceptable.

        Tests that passed without a bound are evidence, but they are not enough.
        """
        return self.verdict.accepted and not self.unbounded

    @property
    def unbounded(self) -> bool:
        """Whether the candidate is supported only by tests whose chance of error is unknown."""
        return self.verdict.kind is Kind.PROBABLE and self.verdict.bound_log2 is None


def verify_candidates(
    graph: KernelGraph,
    options: VerifyOptions | None = None,
    watch: Callable[[Checked], None] | None = None,
    executor: Executor | None = None,
    ledger: Ledger | None = None,
    deadline: float = math.inf,
) -> tuple[KernelGraph, tuple[Checked, ...]]:
    """Return the form ``verified``: only candidates that are equivalent to their reference, each
    with its verdict.

    ``watch`` is called as verdicts come in. With an ``executor`` its workers verify; the verdicts
    are the same. ``ledger`` has results for kernels that several candidates share. Candidates that
    are undecided at the ``deadline`` (seconds since the epoch) are dropped. Raises
    :class:`StageError` for graphs that cannot be compared at all."""
    checked: list[Checked] = []
    parts = count()
    made = positions_of(graph.ops)
    terms = Terms(options or VerifyOptions(), ledger or Ledger(), deadline)

    def verified(op: Alternatives) -> Alternatives:
        known = {i: made[v] for i, v in enumerate(op.operands) if v in made}
        verdicts = verdicts_of(op, known, terms, executor)
        kept, mine = judged(op, verdicts, next(parts), watch)
        checked.extend(mine)
        return kept

    return with_parts(graph, verified), tuple(checked)


def verdicts_of(
    op: Alternatives, known: Mapping[int, Iota], terms: Terms, executor: Executor | None = None
) -> list[Verdict]:
    """Return a verdict for each candidate of a part; its inputs ``known`` are positions."""
    reference, *candidates = op.programs
    taken = [_all_steps_taken(c, known) for c in candidates]
    claims = claims_of(replace(op, programs=(reference, *taken)))
    contents = {i: numbers_of(iota.result.shape, iota.dim) for i, iota in known.items()}
    found: list[Verdict] = []
    try:
        held = replace(terms, positions=contents)
        found.extend(verify_all(reference, claims, held, executor))
    except (SignatureMismatch, InvalidGraph) as error:
        raise StageError(f"verify: candidate {len(found)}: {error}") from error
    left = [n for n, c in enumerate(candidates) if taken[n] is not c and found[n].accepted]
    if left:
        some, verdicts = [candidates[n] for n in left], [found[n] for n in left]
        compared = in_their_steps(reference, some, verdicts, contents, terms, executor)
        for n, verdict in zip(left, compared, strict=True):
            found[n] = verdict
    return found


def judged(
    op: Alternatives,
    verdicts: Iterable[Verdict],
    part: int = 0,
    watch: Callable[[Checked], None] | None = None,
) -> tuple[Alternatives, list[Checked]]:
    """Return the part with the candidates that are kept, and the verdict on each candidate."""
    checked: list[Checked] = []
    for index, verdict in enumerate(verdicts):
        checked.append(Checked(part, index, verdict))
        if watch is not None:
            watch(checked[-1])
    kept = [c for c in checked if c.kept]
    notes = tuple(note_of(c.verdict) for c in kept)
    return replace(kept_of(op, [c.index + 1 for c in kept]), verdicts=notes), checked


def _all_steps_taken(candidate: KernelGraph, known: Mapping[int, Iota]) -> KernelGraph:
    """Return the candidate with loops that skip no steps. If it is not shown that this is the same,
    return the unchanged candidate; then nothing is shown for it."""
    positions = {candidate.inputs[i]: iota for i, iota in known.items()}
    return with_all_steps(candidate, positions) or candidate


def claims_of(op: Alternatives) -> list[Claim]:
    """Return the candidates, with the values that their tensors are claimed to hold."""
    reference, *candidates = op.programs
    if op.holds is None:
        return [Claim(c) for c in candidates]
    programs = {s: searched(reference, stable=s) for s in {h.stable for h in op.holds}}
    claims: list[Claim] = []
    for candidate, holds in zip(candidates, op.holds, strict=True):
        source, program = programs[holds.stable]
        values, pairs = result_values(program), list[tuple[Value, Value]]()
        for number, place, result in holds.places:
            known = number < len(values) and place < len(candidate.ops)
            if known and result < len(candidate.ops[place].results):
                pairs.append((values[number], candidate.ops[place].results[result]))
        claims.append(Claim(candidate, Hint(source, program, tuple(pairs))))
    return claims


def note_of(verdict: Verdict) -> VerdictNote:
    """Return a verdict in the form that the IR keeps: the bound rounded up, and the evidence in one
    line."""
    bound = 0
    if verdict.kind is Kind.PROBABLE and verdict.bound_log2 is not None:
        bound = min(0, math.ceil(verdict.bound_log2))
    evidence = "; ".join(f"{e.name}: {e.text}" for e in verdict.evidence)
    return VerdictNote(verdict.kind.value, bound, evidence or None)
