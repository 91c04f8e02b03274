"""The kernels that cause candidates to be dropped."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.pipeline.verify import Checked
from mirage.search import Candidate, Pick
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import KernelGraph, launches


def refused_kernels(
    tried: Sequence[Candidate], stable: Alternatives, checked: Sequence[Checked]
) -> tuple[list[Pick], list[Pick]]:
    """Return the kernels that may have caused candidates to be dropped, and those of them that are
    known to be the cause."""
    refused: list[Pick] = []
    blamed: list[Pick] = []
    for c in checked:
        if c.kept or c.verdict.late:
            continue
        picks = blamed_kernels(tried[c.index], stable.programs[c.index + 1], c)
        refused += picks
        blamed += picks if c.verdict.unshown else []
    return distinct(refused), distinct(blamed)


def blamed_kernels(candidate: Candidate, graph: KernelGraph, checked: Checked) -> list[Pick]:
    """Return the kernels of a candidate that caused it to be dropped: those that could not be
    shown, the first one whose rounding errors are too large, or all of them if the cause is not
    known."""
    verdict = checked.verdict
    wrong = [graph.ops[i] for i in verdict.unshown or verdict.rough]
    picks = map(candidate.pick_of, launches(wrong or graph.ops))
    return distinct([p for p in picks if p is not None])


def distinct(picks: Sequence[Pick]) -> list[Pick]:
    """Return the picks without duplicates, in order."""
    return list({id(p): p for p in picks}.values())
