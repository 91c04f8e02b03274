"""Partitions of a program, by dynamic programming over its cuts.

A program is seen as a directed acyclic graph whose nodes are the values that a kernel may write to
device memory. A partition chooses the nodes that are *stored*. A *part* computes one or a few
stored nodes from the nearest stored nodes before them, its *leaves*; what lies between is computed
inside, by each part that needs it. The cost of a partition is the sum of its parts' costs.

Nodes are decided in topological order: computed where they are needed, stored by a part of their
own, or stored by a part with room for another result. What later parts cost depends on the
decisions so far only through the *cut*: for each decided node that some undecided one reads, the
leaves from which it would be computed (itself, if it is stored), and the parts that may still get
another result. Choices that lead to the same cut are one state, and each state keeps the cheapest
way on to the end. So states are counted, not partitions; where cuts are narrow their number grows
about linearly with the length of a program.

Solving a part is expensive, so it is postponed. Until a part is solved, it has a lower bound; the
cheapest partition by bounds is determined, parts of it are solved, and this is repeated until the
cheapest one has no unsolved part: no partition is cheaper. (The lazy shortest path of Dellin and
Srinivasa, ICAPS 2016, on the graph of states.)

Bounds are low, so a search that trusts them solves some part of nearly every partition before it
has all parts of one. So it starts by doubting them: bounds are multiplied by the first of
:data:`DOUBTS`, which favours solved parts, until the cheapest partition has no unsolved part. No
partition is cheaper than its cost divided by the doubt. Then the doubt is reduced, keeping all
results, and finally removed. (Anytime repairing A* of Likhachev, Gordon and Thrun, NIPS 2003.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from math import inf

import numpy as np

from mirage.search.program.cuts import Array, Cuts, Level
from mirage.search.program.dag import Part

TOLERANCE = 1e-9
DOUBTS = (1.6, 1.3, 1.15, 1.0)
"""The factors on bounds of unsolved parts, one after the other."""


class Partitions:
    """The partitions that lead through the states of ``cuts``, and their known costs."""

    def __init__(self, cuts: Cuts) -> None:
        self.cuts = cuts
        self._costs: Array = np.array(cuts.bounds)
        self._solved: Array = np.zeros(len(cuts.bounds), dtype=bool)
        self._solved[0] = True
        self._looked_at: Array = np.array(self._solved)
        self._inside = [0]
        self._by_node: dict[int, list[int]] = {}
        for number, part in enumerate(cuts.parts, start=1):
            self._inside.append(_mask(cuts.dag.inside(part)))
            for node in part.nodes:
                self._by_node.setdefault(node, []).append(number)

    # ---- costs

    def unsolved(self, part: Part) -> bool:
        """Return whether some partition has the part and its cost is not known."""
        number = self.cuts.numbers.get(part)
        return number is not None and not self._solved[number]

    def cost(self, part: Part) -> float:
        """Return the part's cost, or its known bound."""
        return float(self._costs[self.cuts.numbers[part]])

    def settle(self, part: Part, cost: float) -> None:
        """Set a part's cost; infinity means that there is no kernel for it."""
        number = self.cuts.numbers[part]
        self._costs[number], self._solved[number] = cost, True
        self._looked_at[number] = True

    def raise_larger(self, part: Part, bound: Callable[[Part], float]) -> None:
        """Apply ``bound`` to the parts that compute at least the same nodes, with at least the same
        nodes inside."""
        inside = self._inside[self.cuts.numbers[part]]
        for other in self._by_node[part.nodes[0]]:
            larger = self.cuts.parts[other - 1]
            if (
                not self._solved[other]
                and inside & ~self._inside[other] & ~_mask(larger.nodes) == 0
                and set(part.nodes) <= set(larger.nodes)
            ):
                self._costs[other] = max(self._costs[other], bound(larger))
                self._solved[other] = self._costs[other] == inf

    # ---- the cheapest partitions

    def cheapest(
        self, known: bool = False, doubt: float = 1.0, proven: bool = False
    ) -> tuple[float, list[Part]]:
        """Return the least cost and the parts in order; infinity if there is no partition. Bounds
        of unsolved parts are multiplied by ``doubt``. With ``known``, only solved parts count; with
        ``proven``, bounds that come from other parts do not count."""
        costs = self._known() if known else self._costs * np.where(self._solved, 1.0, doubt)
        if proven:
            costs = np.where(self._looked_at, self._costs, self.cuts.bounds)
        left = self._left(costs)
        if left[0][0] == inf:
            return inf, []
        state, chosen = 0, list[int]()
        for level, ahead in zip(self.cuts.levels, left[1:], strict=True):
            first, end = self._range(level, state)
            whole = ahead[level.to[first:end]] + costs[level.paid[first:end]].sum(axis=1)
            choice = first + int(np.argmin(whole))
            chosen.extend(int(n) for n in level.paid[choice] if n)
            state = int(level.to[choice])
        return float(left[0][0]), self._ordered(chosen)

    def ranked(self, within: float) -> Iterator[tuple[float, list[Part]]]:
        """Yield partitions of solved parts only, in the order of their cost, up to ``within``."""
        costs = self._known()
        left = self._left(costs)
        heap: list[tuple[float, int, float, int, int, tuple[int, ...]]] = []
        if left[0][0] <= within:
            heap.append((float(left[0][0]), 0, 0.0, 0, 0, ()))
        count = 0
        while heap:
            total, _, spent, number, state, chosen = heappop(heap)
            if number == len(self.cuts.levels):
                yield total, self._ordered(chosen)
                continue
            level, ahead = self.cuts.levels[number], left[number + 1]
            first, end = self._range(level, state)
            for choice in range(first, end):
                paid = level.paid[choice]
                now = spent + float(costs[paid].sum())
                whole = now + float(ahead[level.to[choice]])
                if whole < inf and whole <= within:
                    count += 1
                    path = (*chosen, *(int(n) for n in paid if n))
                    heappush(heap, (whole, count, now, number + 1, int(level.to[choice]), path))

    def _known(self) -> Array:
        return np.where(self._solved, self._costs, inf)

    def _left(self, costs: Array) -> list[Array]:
        """Return, for each state, the least cost of the remaining decisions, and a final infinity
        for none."""
        left: list[Array] = [np.array([0.0, inf])]
        for level in reversed(self.cuts.levels):
            whole = left[-1][level.to] + costs[level.paid].sum(axis=1)
            least = np.minimum.reduceat(whole, level.starts) if len(whole) else whole
            left.append(np.append(least, inf))
        return left[::-1]

    def _range(self, level: Level, state: int) -> tuple[int, int]:
        ends = level.starts[state + 1 : state + 2]
        return int(level.starts[state]), int(ends[0]) if len(ends) else len(level.to)

    def _ordered(self, numbers: Iterable[int]) -> list[Part]:
        return sorted((self.cuts.parts[n - 1] for n in numbers), key=lambda part: part.nodes[-1])


def _mask(nodes: Iterable[int]) -> int:
    return sum(1 << u for u in nodes)


def search(
    partitions: Partitions,
    advance: Callable[[list[Part], float], None],
    stopped: Callable[[int, float], bool],
    settled: Callable[[float], bool] = lambda doubt: False,
    tolerance: float = TOLERANCE,
) -> tuple[float, int]:
    """Solve parts until a cheapest partition is known. ``stopped`` is called with the number of
    proposals and a bound for the cost of all partitions, and may end the search; ``settled`` is
    called when a cheapest partition is known for a doubt, and may end it, too. Returns the bound,
    which is the cost of the cheapest one unless it was stopped, and the number of proposals.

    ``advance`` gets the unsolved parts of a proposal and its cost according to known costs and
    bounds; it solves some part.
    """
    proposals = 0
    doubts = list(DOUBTS)
    while True:
        proposals += 1
        least = partitions.cheapest()[0]
        known = partitions.cheapest(known=True)[0]
        if least >= known - tolerance:
            return least, proposals
        parts: list[Part] = []
        unsolved: list[Part] = []
        while not unsolved:
            cost, parts = partitions.cheapest(doubt=doubts[0])
            unsolved = [p for p in parts if cost < known - tolerance and partitions.unsolved(p)]
            # at the doubt 1 there are some: otherwise the bound would be the known cost
            if not unsolved and settled(doubts.pop(0)):
                return least, proposals
        if stopped(proposals, least):
            return least, proposals
        advance(unsolved, sum(partitions.cost(part) for part in parts))
