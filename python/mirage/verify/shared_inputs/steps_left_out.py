"""Loops that skip steps, read as loops that take all of them.

A step that contributes nothing may be taken or skipped. If this is shown for all steps that a loop
skips, for all values that the inputs other than positions may have, then the loop computes the same
as with all steps, and that loop is verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirage.semantics.bounds.idle_steps import (
    ALL_STEPS,
    Bounds,
    are_idle,
    bounds_of,
    leaves_out_steps,
    with_loops,
)
from mirage.semantics.bounds.tile_ranges import Positions
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Launch, Loop
from mirage.verify.shared_inputs.free_positions import Freed, all_held_apart
from mirage.verify.verdict import Evidence, Kind, Verdict


def with_all_steps(graph: KernelGraph, known: Positions) -> KernelGraph | None:
    """Return ``graph`` with loops that take all steps, if that is shown to be the same; otherwise
    None. ``known`` are the tensors that hold positions."""

    def bounds(launch: Launch, loop: Loop, positions: Positions) -> Bounds:
        shown = loop.steps is None or are_idle(launch, loop, positions)
        return ALL_STEPS if shown else bounds_of(loop)

    taken = with_loops(graph, known, bounds)
    return None if leaves_out_steps(taken) else taken


NOT_IDLE = Verdict(
    Kind.UNKNOWN,
    None,
    (Evidence("steps left out", None, "that they contribute nothing is not shown"),),
    0,
)


def all_steps_taken(freed: Freed) -> Freed | None:
    """Return both programs with loops that take all steps; ``freed`` itself if they already do,
    None if it is not shown that this is the same."""
    reference = with_all_steps(freed.reference, freed.known)
    candidate = with_all_steps(freed.candidate, freed.known)
    if reference is None or candidate is None:
        return None
    if reference is freed.reference and candidate is freed.candidate:
        return freed
    return replace(freed, reference=reference, candidate=candidate)


def with_steps(
    freed: Freed, verdict: Verdict, contents: Mapping[int, Array], work: float
) -> Verdict:
    """Return the verdict on the programs as they are, given the verdict on those that take all
    steps. If that is equality, the former are compared too, since the proof that steps contribute
    nothing is separate from the code that executes them."""
    if not verdict.equivalent:
        return verdict
    graph, candidates = freed.reference, (freed.candidate,)
    (found,) = all_with_steps(graph, candidates, (verdict,), contents, work, verdict.seed)
    return found


def all_with_steps(
    reference: KernelGraph,
    candidates: Sequence[KernelGraph],
    verdicts: Sequence[Verdict],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
) -> list[Verdict]:
    """Compare several candidates that are equal with all steps taken like :func:`with_steps`, on
    the same inputs."""
    apart = all_held_apart(reference, candidates, contents, work, seed)
    return [_in_steps(verdict, found) for verdict, found in zip(verdicts, apart, strict=True)]


def _in_steps(verdict: Verdict, found: Verdict | int | None) -> Verdict:
    if isinstance(found, Verdict):
        return found
    text = f"they contribute nothing; no difference in float64 on {found or 0} random inputs"
    return replace(verdict, evidence=(*verdict.evidence, Evidence("steps left out", True, text)))
