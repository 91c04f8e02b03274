"""The measurements that remain for a candidate that is shown to be equivalent.

Rounding errors and tests of pieces at their real sizes are needed for several candidates of one
program, which share much of the work (:mod:`mirage.verify.candidates.together`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.semantics.ugraph import KernelGraph, Op
from mirage.verify.assumptions import Assumptions
from mirage.verify.evidence.roundings.row_errors import Errors
from mirage.verify.pieces.kernel_by_kernel import Pairs, Piece
from mirage.verify.verdict import Evidence, Kind, Verdict

REAL_SIZES = "tests at the real sizes"


@dataclass(frozen=True)
class Open:
    """A candidate that is shown to be equivalent, and the measurements that remain; if they pass,
    it gets ``verdict``.

    Either its rounding errors remain, or the ``pieces`` must be tested at their real sizes because
    the whole is too large for that (``reason``). ``stored`` says which values the candidate's
    tensors are claimed to hold."""

    verdict: Verdict
    candidate: KernelGraph
    pieces: tuple[Piece, ...] = ()
    stored: Pairs = ()
    reason: str = ""
    in_cells: bool = False
    """Whether its tests at the real sizes were on inputs that are constant within cells."""


@dataclass(frozen=True)
class Tested:
    """The result of testing a piece at its real sizes: whether it computes the same, and whether
    its rounding errors are acceptable; None if there is no result. ``rough`` is the place, among
    the ops of the piece, of the first op whose errors are too large, if that is known."""

    passed: bool | None
    rounding: bool | None
    evidence: tuple[Evidence, ...]
    rough: tuple[int, ...] = ()


def with_tests(left: Open, tested: Mapping[str, Tested]) -> Verdict:
    """Return the verdict on a candidate whose pieces were tested. If some were not, then a failing
    piece is known, or the time ran out."""
    evidence = [*left.verdict.evidence]
    numerics: bool | None = None
    wrong: list[Piece] = []
    rough: list[Op] = []
    for piece in left.pieces:
        found = tested.get(piece.key)
        if found is None:
            continue
        if found.rounding is not None:
            numerics = found.rounding and numerics is not False
        if not found.passed:
            wrong.append(piece)
        elif found.rounding is False:
            rough += [piece.ops[i] for i in found.rough] or piece.ops
        if not found.passed or found.rounding is False:
            evidence += found.evidence
        if not found.passed:
            numerics = None
            break
    unshown = tuple(sorted({*left.verdict.unshown, *ops_of(wrong, left.candidate)}))
    places = (i for i, op in enumerate(left.candidate.ops) if op in rough)
    verdict = replace(left.verdict, unshown=unshown, rough=tuple(places))
    missing = sum(p.key not in tested for p in left.pieces)
    if wrong or missing:
        late = not wrong and not rough
        if late:
            text = f"the time was up before {missing} of {len(left.pieces)} pieces were tested"
            evidence.append(Evidence(REAL_SIZES, None, text))
        return replace(
            verdict, kind=Kind.UNKNOWN, bound_log2=None, permutation=None,
            evidence=tuple(evidence), late=late,
        )  # fmt: skip
    text = f"{len(left.pieces)} pieces, each on its own (the whole: {left.reason})"
    evidence.append(Evidence(REAL_SIZES, True, text))
    return replace(verdict, numerics_hold=numerics, evidence=tuple(evidence))


def ops_of(pieces: Iterable[Piece], candidate: KernelGraph) -> tuple[int, ...]:
    """Return the positions of the candidate's ops within pieces."""
    places = {op: i for i, op in enumerate(candidate.ops)}
    return tuple(sorted({places[op] for piece in pieces for op in piece.ops if op in places}))


def rounding_evidence(results: Sequence[Errors], assumed: Assumptions) -> Evidence:
    """Summarise the errors in all situations as evidence."""
    holds = all(r.holds for r in results)
    worst = max(results, key=lambda r: (not r.holds, r.candidate / (r.reference or 1e-30)))
    found = (
        f"{worst.candidate:.2g}, reference {worst.reference:.2g}" if holds else _too_large(worst)
    )
    return Evidence(
        "rounding errors",
        holds,
        f"worst of {len(results)} situations: {found}: {worst.situation}; assumed: "
        f"{', '.join(assumed.names) or 'nothing'}",
        {
            "assumed": list(assumed.names),
            "situations": [[r.situation, r.reference, str(r.candidate), r.holds] for r in results],
        },
    )


def _too_large(found: Errors) -> str:
    """Say what is wrong with errors that are too large: which information is lost, or by how much
    they exceed the reference's."""
    if found.lost:
        return found.where
    where = f" ({found.where})" if found.where else ""
    where += f"; {found.example}" if found.example else ""
    if not math.isfinite(found.candidate):
        return f"infinite or not a number where the reference gives a number{where}"
    most = "at most twice the reference's is allowed"
    if not found.reference:
        return f"{found.candidate:.2g}, reference 0; {most}{where}"
    times = found.candidate / found.reference
    return (
        f"{found.candidate:.2g}, {times:.3g} times the reference's {found.reference:.2g}; "
        f"{most}{where}"
    )
