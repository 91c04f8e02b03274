"""Candidates without the steps of loops whose tiles a mask empties."""

from __future__ import annotations

from mirage.pipeline.errors import StageError
from mirage.semantics.alternatives import parts_of
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.steps.skip_steps import skip_steps


def skip_steps_of_candidates(graph: KernelGraph) -> KernelGraph:
    """Make every candidate (or the graph itself, if its kernels are chosen) leave out idle steps.

    A verdict holds for the program that was verified, so alternatives with verdicts are refused
    with :class:`StageError`."""
    if any(op.verdicts is not None for op in parts_of(graph)):
        raise StageError(
            "skip-steps: expected candidates without verdicts, got verified ones; it comes before "
            "verify"
        )
    return skip_steps(graph)
