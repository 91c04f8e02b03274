"""Candidates ranked again once they are compiled, as their registers and spills are known then."""

from __future__ import annotations

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
    from mirage.runtime.manifest import Manifest

Build: TypeAlias = "Callable[[KernelGraph], Sequence[Step]]"
"""Compiles a chosen µGraph; raises :class:`mirage.compiler.CompileError`."""


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
    """The ``count`` candidates for the whole program with the least predicted times, compiled;
    the fastest once that is done first. The n-th takes of each part the n-th by predicted time.

    Those that do not compile are left out, with a ``note``, and ``broken`` gets their places and
    why; one is tried before ``goes_on`` is asked, unless others are ``known``, which count, too.
    Empty where a part has no candidate.
    """
    found = list(known)
    for place in range(_places(verified)):
        if len(found) == count or ((found or place) and not goes_on()):
            break
        selected, without = select_cheapest(verified, target, place)
        if without:
            break
        if any(signature(f.graph) == signature(selected) for f in known):
            continue
        try:
            compiled = finalist(selected, place, target, build(selected), note)
            found.append(replace(compiled, verdicts=tuple(verdicts_at(verified, target, place))))
        except CompileError as error:
            note(f"candidate {place} by predicted time does not compile: {error.message}")
            broken(place, error)
    return sorted(found, key=lambda f: (f.predicted, f.place))


def verdicts_at(verified: KernelGraph, target: Target, place: int) -> Iterator[VerdictNote]:
    """Those of the candidates that are chosen at a place."""
    for op in parts_of(verified):
        if op.verdicts is not None:
            order = ranking(op, target)
            if order:
                yield op.verdicts[order[min(place, len(order) - 1)][1] - 1]


def _places(verified: KernelGraph) -> int:
    """The candidates of the part that has most of them; 1 where nothing is to be chosen."""
    counts = (len(op.programs) - 1 for op in parts_of(verified))
    return max(1, *counts, 1)


def finalist(
    selected: KernelGraph,
    place: int,
    target: Target,
    steps: Sequence[Step],
    note: Callable[[str], None],
) -> Finalist:
    """What was compiled to ``steps`` (or to nothing), with its prediction."""
    cost = predict(selected, target, _resources(selected, steps))
    spilled = sum(step.compiled.spilled_bytes for step in steps if step.compiled is not None)
    if spilled:
        note(f"candidate {place} by predicted time spills {spilled} bytes of registers")
    return Finalist(selected, tuple(steps), place, cost, spilled)


def _resources(selected: KernelGraph, steps: Sequence[Step]) -> list[Resources]:
    """What each launch of ``selected`` needs, in its order, which is not that of the steps; empty
    where that is not known of all."""
    found: dict[Value, Resources] = {}
    for step in steps:
        if step.compiled is None or step.graph is None:
            continue
        kernels = list(launches(step.graph.ops))
        needed = resources_of(step.compiled.artifact.manifest)
        if len(kernels) == len(needed):
            found.update((op.results[0], r) for op, r in zip(kernels, needed, strict=True))
    known = [found.get(op.results[0]) for op in launches(selected.ops)]
    return [] if None in known else [r for r in known if r is not None]


def outcome(ranked: Sequence[Finalist]) -> Iterator[str]:
    """What ranking has changed, in words."""
    best = ranked[0]
    if best.place and len(ranked) > 1:
        yield (
            f"candidate {best.place} by predicted time is the fastest once compiled "
            f"({best.predicted:.2f} us predicted)"
        )


def rank_candidates(
    graph: KernelGraph, target: Target, count: int, build: Build, note: Callable[[str], None]
) -> KernelGraph:
    """Form ``verified`` still, with the one candidate of each part that belongs to the fastest of
    the ``count`` compiled programs. Raises :class:`StageError` where none compiles; parts without a
    candidate leave nothing to rank.
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
    """What the kernels of an artifact need, in the order of their launches."""
    found: list[Resources] = []
    for kernel in manifest.kernels:
        said = manifest.resources.get(kernel.entry)
        found.append(
            Resources(
                prod(kernel.block),
                kernel.shared_bytes,
                None if said is None else said["registers"],
                0 if said is None else said["spill_stores"] + said["spill_loads"],
            )
        )
    return found
