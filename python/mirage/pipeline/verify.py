"""A verdict for each candidate; what is not equivalent goes no further."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from mirage.semantics.check import InvalidGraph
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify import Kind, SignatureMismatch, Verdict, VerifyOptions
from mirage.verify.kernel_by_kernel import Hint
from mirage.verify.ledger import Ledger
from mirage.verify.together import Claim, Terms, verify_all


@dataclass(frozen=True)
class Checked:
    """What verification said about one candidate. ``index`` counts the candidates of its part,
    from 0.
    """

    part: int
    index: int
    verdict: Verdict

    @property
    def kept(self) -> bool:
        """Whether the candidate goes on: equivalent with a stated bound, rounding errors in order.

        Tests that passed without a bound are evidence, and not enough.
        """
        return self.verdict.accepted and not self.unbounded

    @property
    def unbounded(self) -> bool:
        """Whether only tests speak for the candidate whose error nobody can state."""
        return self.verdict.kind is Kind.PROBABLE and self.verdict.bound_log2 is None


def verify_candidates(
    graph: KernelGraph,
    options: VerifyOptions | None = None,
    watch: Callable[[Checked], None] | None = None,
    executor: Executor | None = None,
    ledger: Ledger | None = None,
    deadline: float = math.inf,
) -> tuple[KernelGraph, tuple[Checked, ...]]:
    """Form ``verified``: only candidates that are equivalent to their reference, each with its
    verdict.

    ``watch`` is called as verdicts come in. With an ``executor`` its workers verify; the verdicts
    are the same. ``ledger`` has what is known of kernels that several candidates share; what is not
    decided at the ``deadline`` (seconds since the epoch) is dropped. Raises :class:`StageError` for
    graphs that cannot be compared at all."""
    checked: list[Checked] = []
    parts = count()
    terms = Terms(options or VerifyOptions(), ledger or Ledger(), deadline)

    def verified(op: Alternatives) -> Alternatives:
        part = next(parts)
        reference, *candidates = op.programs
        claims = claims_of(op)
        mine: list[Checked] = []
        verdicts = verify_all(reference, claims, terms, executor)
        for index in range(len(candidates)):
            try:
                verdict = next(verdicts)
            except (SignatureMismatch, InvalidGraph) as error:
                raise StageError(f"verify: candidate {index}: {error}") from error
            mine.append(Checked(part, index, verdict))
            if watch is not None:
                watch(mine[-1])
        kept = [c for c in mine if c.kept]
        notes = tuple(note_of(c.verdict) for c in kept)
        checked.extend(mine)
        return replace(kept_of(op, [c.index + 1 for c in kept]), verdicts=notes)

    return with_parts(graph, verified), tuple(checked)


def claims_of(op: Alternatives) -> list[Claim]:
    """The candidates, with what their tensors are said to hold."""
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
    """A verdict as the IR keeps it: the bound rounded up, the evidence in one line."""
    bound = 0
    if verdict.kind is Kind.PROBABLE and verdict.bound_log2 is not None:
        bound = min(0, math.ceil(verdict.bound_log2))
    evidence = "; ".join(f"{e.name}: {e.text}" for e in verdict.evidence)
    return VerdictNote(verdict.kind.value, bound, evidence or None)
