"""Which of the ways to compute a kernel are written down before its cost is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import itemgetter

from mirage.search.kernel.problem import Solution
from mirage.search.kernel.solver import Pick

WRITTEN = 4
"""Ways to compute a kernel that are written down, those that do the same counted once."""
LESS = 0.9
"""What is written down may cost so much less than its estimate, which knows no blocks that go on
with another tile."""


def written_first(picks: Sequence[Pick], write: Callable[[Pick], Solution | None]) -> list[Pick]:
    """The picks, which are sorted by their estimates, with those first that are written down, by
    the cost of what was written: it knows registers, shared memory and blocks that go on, which an
    estimate does not. The next one is written as long as it may be better.

    Picks of the same estimate at the same sizes do the same work: one of them is written, and what
    is known of it goes for all, or a kernel with many derivations would be believed to take what
    the first sizes take.
    """
    found: list[tuple[float, Pick]] = []
    costs: dict[object, float] = {}
    for place, pick in enumerate(picks):
        if len(costs) == WRITTEN or LESS * pick.time >= min(costs.values(), default=inf):
            found += ((inf, other) for other in picks[place:])
            break
        work = pick.work
        if work in costs:
            pick.time = costs[work]
            found.append((pick.time, pick))
        elif (solution := write(pick)) is not None:
            costs[work] = solution.cost.time
            found.append((solution.cost.time, pick))
    return [pick for _, pick in sorted(found, key=itemgetter(0))]
