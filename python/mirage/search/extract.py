"""The k best derivations of some goals, by DAG cost (a value that is used twice is paid once)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from math import inf, isfinite

from mirage.search.derive import Derivations, Edge, Goal

Partial = tuple[float, int]
"""Cost and edges of a derivation; edge ``i`` is bit ``i``."""


def k_best(
    derivations: Derivations,
    targets: Sequence[Goal],
    costs: dict[int, float],
    numbers: dict[Edge, int],
    k: int,
) -> list[frozenset[int]]:
    """Edge sets of up to ``k`` derivations of all ``targets``; ``costs`` by the number of the
    edge."""
    search = _Extraction(costs, k)
    best: dict[Goal, list[Partial]] = {}
    for goal in derivations.order:
        found: dict[int, float] = {}
        for edge in derivations.edges[goal]:
            number = numbers[edge]
            own = costs[number]
            if not isfinite(own):
                continue
            for cost, edges in search.combine([best[c] for c in edge.children]):
                found.setdefault(edges | 1 << number, cost + own)
        best[goal] = nsmallest(k, ((cost, edges) for edges, cost in found.items()))
    return [_members(edges) for _, edges in search.combine([best.get(t, []) for t in targets])]


class _Extraction:
    def __init__(self, costs: dict[int, float], k: int) -> None:
        self.costs, self.k = costs, k
        self._shared: dict[int, float] = {0: 0.0}

    def combine(self, children: list[list[Partial]]) -> list[Partial]:
        """Derivations of several values at once: what they share is paid once."""
        if len(children) == 1:
            return children[0]
        combos: list[Partial] = [(0.0, 0)]
        for options in children:
            merged: dict[int, float] = {}
            for left_cost, left in combos:
                for right_cost, right in options:
                    edges = left | right
                    if edges not in merged:
                        merged[edges] = left_cost + right_cost - self._cost(left & right)
            combos = nsmallest(2 * self.k, ((cost, edges) for edges, cost in merged.items()))
        return [combo for combo in combos if combo[0] < inf]

    def _cost(self, edges: int) -> float:
        found = self._shared.get(edges)
        if found is None:
            found = self._shared[edges] = sum(self.costs[i] for i in _members(edges))
        return found


def _members(edges: int) -> frozenset[int]:
    out: list[int] = []
    while edges:
        lowest = edges & -edges
        out.append(lowest.bit_length() - 1)
        edges ^= lowest
    return frozenset(out)


def select(
    derivations: Derivations, targets: Sequence[Goal], chosen: frozenset[int], by_number: list[Edge]
) -> list[Edge]:
    """One edge per goal reachable from the targets, children first."""
    choice: dict[Goal, Edge] = {}
    for number in sorted(chosen):
        edge = by_number[number]
        choice.setdefault(edge.goal, edge)
    out: list[Edge] = []
    done: set[Goal] = set()

    def visit(goal: Goal) -> None:
        if goal in done:
            return
        done.add(goal)
        edge = choice[goal]
        for child in edge.children:
            visit(child)
        out.append(edge)

    for target in targets:
        visit(target)
    return out
