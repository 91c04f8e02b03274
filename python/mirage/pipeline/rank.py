"""Candidates ranked again after compilation, when their registers and spills are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from mirage.compiler.errors import CompileError
from mirage.cost import Resources, Target
from mirage.cost.predict import predict
from mirage.pipeline.errors import StageError
from mirage.pipeline.result import Finalist, Step
from mirage.pipeline.select import ranking, select_cheapest
from mirage.semantics.alternatives import Alternatives, VerdictNote, kept_of, parts_of, with_parts
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Value, launches

if TYPE_CHECKING:
    from mirage.runtime.serialization.manifest import Manifest

Build: TypeAlias = "Callable[[KernelGraph], Sequence[Step]]"
"""A function that compiles a chosen µGraph; it raises :class:`mirage.compiler.CompileError`."""


def finalists(
    verified: KernelGraph,
    target: Target,
    count: int,
    build: Build,
    note: Callable[[str], None],
    goes_on: Callable[[], bool] = lambda: True,
    broken: Callable[[int, CompileError], None] = lambda place, error: None,
    known: Sequence[Finalist] = (),
) -> list[Finalist]:
    """Compile the ``count`` candidates for the whole program with the least predicted times, and
    return them with the fastest first. The n-th takes the n-th candidate of each part by predicted
    time. If all of them are predicted to take longer, once their registers and spills are known,
    than the next one is predicted to take without that, the next one is compiled, too; of all of
    them, the ``count`` fastest are returned.

    Those that do not compile are left out, with a ``note``; ``broken`` gets their places and the
    reasons. ``goes_on`` is asked before each compilation except the first. Programs that are
    already ``known``, made of earlier answers for the parts, count as compiled, but not in place of
    the cheapest candidate; they come after it if nothing is predicted for the whole, as with calls
    of PyTorch. The result is empty if a part has no candidate.
    """
    found: list[Finalist] = []
    for place in range(_places(verified)):
        if (known or place) and not goes_on():
            break
        selected, without = select_cheapest(verified, target, place)
        before = (*found, *known)
        enough = place > 0 and len(before) >= count
        if without or (enough and not _may_be_faster(selected, target, before)):
            break
        if any(signature(f.graph) == signature(selected) for f in known):
            continue
        try:
            compiled = finalist(selected, place, target, build(selected), note)
            found.append(replace(compiled, verdicts=tuple(verdicts_at(verified, target, place))))
        except CompileError as error:
            note(f"candidate {place} by predicted time does not compile: {error.message}")
            broken(place, error)
    fastest = sorted(found, key=_speed)[:count]
    return sorted((*fastest, *known), key=_speed)


def _speed(found: Finalist) -> tuple[float, int]:
    return found.predicted, found.place


def _may_be_faster(graph: KernelGraph, target: Target, found: Sequence[Finalist]) -> bool:
    """Return whether a program that is not compiled is predicted to be faster than all compiled
    ones."""
    cost = predict(graph, target)
    return cost is not None and cost.time < min(f.predicted for f in found) < math.inf


def verdicts_at(verified: KernelGraph, target: Target, place: int) -> Iterator[VerdictNote]:
    """Yield the verdicts on the candidates that are chosen at a place."""
    for op in parts_of(verified):
        if op.verdicts is not None:
            order = ranking(op, target)
            if order:
                yield op.verdicts[order[min(place, len(order) - 1)][1] - 1]


def _places(verified: KernelGraph) -> int:
    """Return the number of candidates of the part that has the most; 1 if there is nothing to
    choose."""
    counts = (len(op.programs) - 1 for op in parts_of(verified))
    return max(1, *counts, 1)


def finalist(
    selected: KernelGraph,
    place: int,
    target: Target,
    steps: Sequence[Step],
    note: Callable[[str], None],
) -> Finalist:
    """Return a program that was compiled to ``steps`` (possibly none), with its prediction."""
    cost = predict(selected, target, _resources(selected, steps))
    spilled = sum(step.compiled.spilled_bytes for step in steps if step.compiled is not None)
    if spilled:
        note(f"candidate {place} by predicted time spills {spilled} bytes of registers")
    return Finalist(selected, tuple(steps), place, cost, spilled)


def _resources(selected: KernelGraph, steps: Sequence[Step]) -> list[Resources | None]:
    """Return the resources of each launch of ``selected``, in its order, which is not that of the
    steps; None for launches that are not among the kernels of the steps."""
    found: dict[Value, Resources] = {}
    for step in steps:
        if step.compiled is None or step.graph is None:
            continue
        kernels = list(launches(step.graph.ops))
        needed = resources_of(step.compiled.artifact.manifest)
        if len(kernels) == len(needed):
            found.update((op.results[0], r) for op, r in zip(kernels, needed, strict=True))
    return [found.get(op.results[0]) for op in launches(selected.ops)]


def outcome(ranked: Sequence[Finalist]) -> Iterator[str]:
    """Yield sentences that say what ranking has changed."""
    best = ranked[0]
    if best.place and len(ranked) > 1:
        yield (
            f"candidate {best.place} by predicted time is the fastest once compiled "
            f"({best.predicted:.2f} us predicted)"
        )


def rank_candidates(
    graph: KernelGraph, target: Target, count: int, build: Build, note: Callable[[str], None]
) -> KernelGraph:
    """Keep, for each part, only the candidate that belongs to the fastest of the ``count`` compiled
    programs; the form is ``verified`` still. Raises :class:`StageError` if none compiles. If a part
    has no candidate, nothing is ranked.
    """
    if not all(ranking(op, target) for op in parts_of(graph)):
        return graph
    notes: list[str] = []
    ranked = finalists(graph, target, count, build, notes.append)
    if not ranked:
        raise StageError("; ".join(("rank: no candidate can be compiled", *notes)))
    for text in (*notes, *outcome(ranked)):
        note(text)

    def keep(op: Alternatives) -> Alternatives:
        order = ranking(op, target)
        return kept_of(op, [order[min(ranked[0].place, len(order) - 1)][1]])

    return with_parts(graph, keep)


def resources_of(manifest: Manifest) -> list[Resources]:
    """Return the resources of an artifact's kernels, in the order of their launches."""
    found: list[Resources] = []
    for kernel in manifest.kernels:
        said = manifest.resources.get(kernel.entry)
        found.append(
            Resources(
                prod(kernel.block),
                kernel.shared_bytes,
                None if said is None else said["registers"],
                0 if said is None else said["spill_stores"] + said["spill_loads"],
                prod(kernel.grid),
            )
        )
    return found
