"""The candidates that are most worth verifying."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from mirage.cost import Target
from mirage.cost.predict import predict
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.semantics.alternatives import Alternatives, kept_of
from mirage.semantics.ugraph import KernelGraph, Launch, Op, loops
from mirage.transforms import Exponential


def shortlist(
    graph: KernelGraph,
    target: Target,
    count: int,
    exponentials: Sequence[Sequence[Exponential]] | None = None,
) -> tuple[KernelGraph, tuple[tuple[int, ...], ...]]:
    """Form ``candidates``: of each part the ``count`` candidates that are most worth verifying, and
    their positions before.

    The predicted time of what is stable counts, and variety: of those with the same grids, loops
    and schedules (they differ in the order of a few ops) the first two come before others only.
    ``exponentials`` are those that :func:`stabilize_candidates` found in each candidate; without
    them they are looked for again."""
    ops: list[Op] = []
    kept: list[tuple[int, ...]] = []
    if exponentials is None:
        _, exponentials = stabilize_candidates(graph)
    entries = iter(exponentials)
    for op in graph.ops:
        if isinstance(op, Alternatives):
            ranked: list[tuple[bool, float, int]] = []
            for number, program in enumerate(op.programs[1:]):
                cost = predict(program, target)
                unstable = any(not e.stable for e in next(entries, ()))
                ranked.append((unstable, math.inf if cost is None else cost.time, number))
            ranked.sort()
            seen: Counter[tuple[object, ...]] = Counter()
            repeated: list[tuple[bool, bool, float, int]] = []
            for unstable, time, number in ranked:
                shape = _shape_of(op.programs[number + 1])
                seen[shape] += 1
                repeated.append((unstable or time == math.inf, seen[shape] > 2, time, number))
            picked = sorted(sorted(repeated)[:count], key=lambda r: (r[0], r[2], r[3]))
            places = tuple(number for *_, number in picked)
            kept.append(places)
            op = kept_of(op, [p + 1 for p in places])
        ops.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), tuple(kept)


def _shape_of(program: KernelGraph) -> tuple[object, ...]:
    return tuple(
        (
            tuple(a.extent for a in op.grid),
            tuple(loop.axis.extent for loop in loops(op)),
            op.schedule,
        )
        for op in program.ops
        if isinstance(op, Launch)
    )
