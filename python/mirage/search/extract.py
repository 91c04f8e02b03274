"""The k best derivations of some goals, by DAG cost (a value that is used twice is paid once)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

from mirage.search.derive import Derivations, Goal
from mirage.search.moves import Edge

Partial = tuple[float, int]
"""Cost and edges of a derivation; edge ``i`` is bit ``i``."""


class Choices:
    """The edges of an AND-OR graph in numbers: goals in order, children first; edges by goal."""

    def __init__(self, derivations: Derivations, targets: Sequence[Goal]) -> None:
        places = {goal: place for place, goal in enumerate(derivations.order)}
        self.edges: list[Edge] = []
        self.of_goal: list[list[tuple[int, list[int]]]] = []
        """For each goal its edges, and the goals that each needs."""
        for goal in derivations.order:
            own: list[tuple[int, list[int]]] = []
            for edge in derivations.edges[goal]:
                own.append((len(self.edges), [places[c] for c in edge.children]))
                self.edges.append(edge)
            self.of_goal.append(own)
        self.targets = [places[t] for t in targets]
        self._goals = targets

    def k_best(self, costs: Sequence[float], k: int) -> list[int]:
        """Edge sets, as bits, of up to ``k`` derivations of all targets; ``costs`` by the number of
        the edge."""
        search = _Extraction(costs, k)
        best: list[list[Partial]] = []
        for edges in self.of_goal:
            found: dict[int, float] = {}
            for number, children in edges:
                own = costs[number]
                if not isfinite(own):
                    continue
                bit = 1 << number
                for cost, below in search.combine([best[c] for c in children]):
                    found.setdefault(below | bit, cost + own)
            best.append(sorted((cost, edges) for edges, cost in found.items())[:k])
        return [edges for _, edges in search.combine([best[t] for t in self.targets])]

    def select(self, chosen: int) -> list[Edge]:
        """One of the chosen edges per goal reachable from the targets, children first."""
        choice: dict[Goal, Edge] = {}
        for number in _members(chosen):
            edge = self.edges[number]
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

        for target in self._goals:
            visit(target)
        return out


class _Extraction:
    def __init__(self, costs: Sequence[float], k: int) -> None:
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
            combos = sorted((cost, edges) for edges, cost in merged.items())[: 2 * self.k]
        return [combo for combo in combos if combo[0] < inf]

    def _cost(self, edges: int) -> float:
        found = self._shared.get(edges)
        if found is None:
            found = self._shared[edges] = sum(self.costs[i] for i in _members(edges))
        return found


def _members(edges: int) -> list[int]:
    out: list[int] = []
    while edges:
        lowest = edges & -edges
        out.append(lowest.bit_length() - 1)
        edges ^= lowest
    return out
