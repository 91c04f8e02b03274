"""Because of which kernels candidates are dropped."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.pipeline.verify import Checked
from mirage.search import Candidate, Pick
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import KernelGraph, launches


def refused_kernels(
    tried: Sequence[Candidate], stable: Alternatives, checked: Sequence[Checked]
) -> tuple[list[Pick], list[Pick]]:
    """The kernels because of which candidates were dropped, and those of them that are known to
    be to blame."""
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
    """The kernels of a candidate because of which it was dropped: those that could not be
    shown, the first whose rounding errors are too large, or all where that is not known."""
    verdict = checked.verdict
    wrong = [graph.ops[i] for i in verdict.unshown or verdict.rough]
    picks = map(candidate.pick_of, launches(wrong or graph.ops))
    return distinct([p for p in picks if p is not None])


def distinct(picks: Sequence[Pick]) -> list[Pick]:
    """Each once, in order."""
    return list({id(p): p for p in picks}.values())
