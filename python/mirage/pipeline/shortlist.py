"""The candidates that are most worth verifying."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from mirage.cost import Target
from mirage.cost.predict import predict
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.semantics.alternatives import Alternatives, kept_of, with_parts
from mirage.semantics.ugraph import KernelGraph, launches, loops
from mirage.transforms import Exponential


def shortlist(
    graph: KernelGraph,
    target: Target,
    count: int,
    exponentials: Sequence[Sequence[Exponential]] | None = None,
) -> tuple[KernelGraph, tuple[tuple[int, ...], ...]]:
    """Return the form ``candidates`` with the ``count`` candidates of each part that are most worth
    verifying, and their previous positions.

    The criteria are the predicted time of the stable form, and variety: of candidates with the same
    grids, loops and schedules (they differ in the order of a few ops), only the first two come
    before others. ``exponentials`` are those that :func:`stabilize_candidates` found in each
    candidate; if they are missing, they are determined again."""
    kept: list[tuple[int, ...]] = []
    if exponentials is None:
        _, exponentials = stabilize_candidates(graph)
    entries = iter(exponentials)

    def keep(op: Alternatives) -> Alternatives:
        unstable = [any(not e.stable for e in next(entries, ())) for _ in op.programs[1:]]
        places = _best(op.programs[1:], unstable, target, count)
        kept.append(places)
        return kept_of(op, [p + 1 for p in places])

    return with_parts(graph, keep), tuple(kept)


def _best(
    programs: Sequence[KernelGraph], unstable: Sequence[bool], target: Target, count: int
) -> tuple[int, ...]:
    """Return the positions of the programs that are most worth verifying."""
    costs = [predict(program, target) for program in programs]
    times = [math.inf if cost is None else cost.time for cost in costs]
    seen: Counter[tuple[object, ...]] = Counter()
    repeated: list[tuple[bool, bool, float, int]] = []
    for rough, time, number in sorted(zip(unstable, times, range(len(times)), strict=True)):
        shape = _shape_of(programs[number])
        seen[shape] += 1
        repeated.append((rough or time == math.inf, seen[shape] > 2, time, number))
    picked = sorted(sorted(repeated)[:count], key=lambda r: (r[0], r[2], r[3]))
    return tuple(number for *_, number in picked)


def _shape_of(program: KernelGraph) -> tuple[object, ...]:
    return tuple(
        (
            tuple(a.extent for a in op.grid),
            tuple(loop.axis.extent for loop in loops(op)),
            op.schedule,
        )
        for op in launches(program.ops)
    )
