"""Candidates made safe from overflow."""

from __future__ import annotations

from dataclasses import replace

from mirage.pipeline.errors import StageError
from mirage.semantics.alternatives import Alternatives, parts_of, with_parts
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import Exponential, stabilize


def stabilize_candidates(
    graph: KernelGraph,
) -> tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]]:
    """Make every candidate (or the graph itself, if its kernels are chosen) safe from overflow
    where algebra allows it.

    The second result has the exponentials of each. A verdict holds for the program that was
    verified, so alternatives with verdicts are refused with :class:`StageError`."""
    exponentials: list[tuple[Exponential, ...]] = []

    def stable(program: KernelGraph) -> KernelGraph:
        done = stabilize(program)
        exponentials.append(done.exponentials)
        return done.graph

    def stable_part(op: Alternatives) -> Alternatives:
        if op.verdicts is not None:
            raise StageError(
                "stabilize: expected candidates without verdicts, got verified ones; it comes "
                "before verify"
            )
        return replace(op, programs=(op.programs[0], *map(stable, op.programs[1:])))

    done = with_parts(graph, stable_part) if parts_of(graph) else stable(graph)
    return done, tuple(exponentials)
