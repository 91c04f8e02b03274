"""Writes the most promising ways to compute a kernel as launches, since estimates of their time may
be wrong, and sorts them by the costs of these launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import itemgetter

from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.problem import Solution

WRITTEN = 4
"""The number of ways to compute a kernel that are written; ways that do the same work count once,
and those that take longer than :data:`WRONG` times their estimates do not count."""
WRONG, MOST_WRITTEN = 1.25, 8
"""The factor above which an estimate counts as wrong, and the number of ways that are written in
total, including the wrong ones: several may be wrong in the same way."""
LESS = 0.9
"""The factor by which the cost of a written launch may be below its estimate, which does not
consider blocks that continue with another tile."""


def written_first(picks: Sequence[Pick], write: Callable[[Pick], Solution | None]) -> list[Pick]:
    """Return picks, given in the order of their estimates, with the written ones first, in the
    order of their costs after writing. These costs consider registers, shared memory and blocks
    that continue with another tile, and estimates do not. Picks are written as long as the next one
    may be better.

    Picks with the same estimate at the same sizes do the same work: only one of them is written,
    and its cost applies to all. Otherwise, a kernel with many derivations would be assumed to be as
    slow as its first sizes."""
    found: list[tuple[float, Pick]] = []
    costs: dict[object, float] = {}
    kept = 0  # their estimates
    for place, pick in enumerate(picks):
        enough = kept == WRITTEN or len(costs) == MOST_WRITTEN
        if enough or LESS * pick.time >= min(costs.values(), default=inf):
            found += ((inf, other) for other in picks[place:])
            break
        work = pick.work
        if work in costs:
            pick.time = costs[work]
            found.append((pick.time, pick))
        elif (solution := write(pick)) is not None:
            costs[work] = solution.cost.time
            kept += solution.cost.time <= WRONG * pick.time
            found.append((solution.cost.time, pick))
    return [pick for _, pick in sorted(found, key=itemgetter(0))]
