"""Candidates of one program to be measured: more than the pipeline would compile, including slower
ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mirage.cost.predict import predict
from mirage.cost.target import Target
from mirage.errors import MirageError
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import ranking
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import KernelGraph, Launch, Loop, Schedule, all_ops
from mirage.workloads import get

SPREAD = 3.0
"""Candidates that are predicted to take longer than this many times the best are left out."""


@dataclass(frozen=True)
class Searched:
    """The results of the search of one program."""

    ranked: list[tuple[float, KernelGraph]]  # predicted time and µGraph, the fastest first
    # indices there of the candidates that the driver would compile, in its order
    finalists: list[int]


Picked = list[tuple[int, KernelGraph]]
"""Places in the ranking and µGraphs."""


def spread(
    name: str, target: Target, count: int, finalists: int | None, seed: str
) -> list[tuple[int, KernelGraph, bool]]:
    """``(rank, graph, whether the driver would compile it)`` of ``count`` candidates of a program:
    those that it would compile first (``finalists`` of them, by default as many as it takes), some
    of the others over a spread of ranks, and the first with other schedules. Raises
    :class:`~mirage.errors.MirageError` where a program is not searched as a whole."""
    rng = random.Random(seed)
    searched = search(name, target, finalists or OptimizeOptions().finalists)
    picked = [(rank, searched.ranked[rank][1]) for rank in searched.finalists]
    _add_others(picked, searched, count - 3, rng)
    _add_rescheduled(picked, target, count, rng)
    first = len(searched.finalists)
    return [(rank, graph, number < first) for number, (rank, graph) in enumerate(picked)]


def search(name: str, target: Target, finalists: int) -> Searched:
    """Search as the driver would, without proofs."""
    limits = SearchLimits(candidates=40)
    stable, exps = stabilize_candidates(add_candidates(get(name).graph(), target, limits)[0])
    parts = [op for op in stable.ops if isinstance(op, Alternatives)]
    if len(parts) != 1:
        raise MirageError(
            f"expected a program that is searched as a whole, {name} is {len(parts)} parts"
        )
    (part,) = parts
    ranked = ranking(part, target)
    _, (first,) = shortlist(stable, target, finalists, exps)
    place = {p - 1: rank for rank, (_, p) in enumerate(ranked)}
    return Searched(
        [(time, part.programs[p]) for time, p in ranked], [place[p] for p in first if p in place]
    )


def _add_others(picked: Picked, searched: Searched, most: int, rng: random.Random) -> None:
    """Return others that are predicted to be nearly the fastest, up to ``most`` in all, preferably
    with grids that no other has."""
    slowest = SPREAD * searched.ranked[0][0]
    finalists = set(searched.finalists)
    near = [
        (rank, graph)
        for rank, (time, graph) in enumerate(searched.ranked)
        if time <= slowest and rank not in finalists
    ]
    seen = {_grids(graph) for _, graph in picked}
    rest = rng.sample(near, len(near))
    rest.sort(key=lambda g: _grids(g[1]) in seen)  # other grids first; equal ones stay shuffled
    for rank, graph in rest:
        fresh = _grids(graph) not in seen or len(seen) > 20
        if len(picked) < most and fresh:
            picked.append((rank, graph))
            seen.add(_grids(graph))


def _add_rescheduled(picked: Picked, target: Target, most: int, rng: random.Random) -> None:
    """Return the first three with other numbers of warps and stages, up to ``most`` in all."""
    variants = [(w, s) for w in (4, 8, 16) for s in (2, 3, 4)]
    rng.shuffle(variants)
    launches = (op for _, g in picked[:1] for op in g.ops if isinstance(op, Launch))
    own = {(op.schedule.warps, op.schedule.stages) for op in launches}
    for warps, stages in variants:
        if len(picked) >= most:
            break
        rank, graph = picked[rng.randrange(min(3, len(picked)))]
        variant = _rescheduled(graph, warps, stages)
        if (warps, stages) not in own and predict(variant, target) is not None:
            picked.append((rank, variant))


def _rescheduled(graph: KernelGraph, warps: int, stages: int) -> KernelGraph:
    """Yield candidates with other schedules of the kernels that read all inputs."""
    ops = tuple(
        replace(op, schedule=Schedule(warps, stages if _has_loop(op) else 1))
        if isinstance(op, Launch) and len(op.operands) == len(graph.inputs)
        else op
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def _grids(graph: KernelGraph) -> tuple[tuple[int, ...], ...]:
    """Return the grids and loops of all kernels."""
    return tuple(
        (*(a.extent for a in op.grid),
         *(-x.axis.extent for x in all_ops(op.body.ops) if isinstance(x, Loop)))
        for op in graph.ops
        if isinstance(op, Launch)
    )  # fmt: skip


def _has_loop(launch: Launch) -> bool:
    """Return whether the number of stages has an effect on a launch."""
    return any(isinstance(op, Loop) for op in launch.body.ops)
