"""The k best derivations of some goals, by DAG cost (a value that is used twice is paid for
once)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.moves import Edge

Partial = tuple[float, int]
"""The cost and the edges of a derivation; edge ``i`` is bit ``i``."""


class Choices:
    """The edges of an AND-OR graph, as numbers: goals in order, children first; edges by goal."""

    def __init__(self, derivations: Derivations, targets: Sequence[Goal]) -> None:
        places = {goal: place for place, goal in enumerate(derivations.order)}
        self.edges: list[Edge] = []
        self.needs: list[list[tuple[Edge, list[int]]]] = []
        """The edges of each goal, with the goals that each edge needs."""
        self.of_goal: list[list[tuple[int, list[int]]]] = []
        """The numbers of the edges of each goal, with the goals that each edge needs."""
        for goal in derivations.order:
            own: list[tuple[int, list[int]]] = []
            for edge in derivations.edges[goal]:
                own.append((len(self.edges), [places[c] for c in edge.children]))
                self.edges.append(edge)
            self.of_goal.append(own)
            self.needs.append([(self.edges[n], children) for n, children in own])
        self.targets = [places[t] for t in targets]
        self.dropped = False  # whether there were more derivations than asked for
        self._goals = targets

    def k_best(self, costs: Sequence[float], k: int) -> list[int]:
        """Return the edge sets, as bits, of up to ``k`` derivations of all targets; ``costs`` maps
        numbers of edges to costs."""
        search = _Extraction(costs, k)
        best: list[list[Partial]] = []
        for edges in self.of_goal:
            found: dict[int, float] = {}
            for number, children in edges:
                own = costs[number]
                if not isfinite(own):
                    continue
                bit = 1 << number
                below = [best[c] for c in children]
                for cost, chosen in below[0] if len(below) == 1 else search.combine(below):
                    found.setdefault(chosen | bit, cost + own)
            self.dropped |= len(found) > k
            best.append(sorted((cost, edges) for edges, cost in found.items())[:k])
        chosen = [edges for _, edges in search.combine([best[t] for t in self.targets])]
        self.dropped |= search.dropped
        return chosen

    def select(self, chosen: int) -> list[Edge]:
        """Return one of the chosen edges for each goal reachable from the targets, children
        first."""
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
        self.dropped = False
        self._shared: dict[int, float] = {0: 0.0}

    def combine(self, children: list[list[Partial]]) -> list[Partial]:
        """Combine derivations of several values; shared edges are paid for once."""
        if not children:
            return [(0.0, 0)]
        combos = children[0]
        shared = self._shared
        for options in children[1:]:
            merged: dict[int, float] = {}
            for left_cost, left in combos:
                for right_cost, right in options:
                    edges = left | right
                    if edges in merged:
                        continue
                    both = left & right
                    if not both:
                        merged[edges] = left_cost + right_cost
                        continue
                    twice = shared.get(both)
                    if twice is None:
                        twice = self._cost(both)
                    merged[edges] = left_cost + right_cost - twice
            self.dropped |= len(merged) > 2 * self.k
            combos = sorted((cost, edges) for edges, cost in merged.items())[: 2 * self.k]
        return [combo for combo in combos if combo[0] < inf]

    def _cost(self, edges: int) -> float:
        costs = self.costs
        found = self._shared[edges] = sum([costs[i] for i in _members(edges)])
        return found


def _members(edges: int) -> list[int]:
    digits = f"{edges:b}"[::-1]
    out: list[int] = []
    place = digits.find("1")
    while place >= 0:
        out.append(place)
        place = digits.find("1", place + 1)
    return out
