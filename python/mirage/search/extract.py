"""The k best derivations of some goals, by DAG cost (a value that is used twice is paid once)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from mirage.search.derive import Derivations, Edge, Goal


@dataclass(frozen=True)
class _Partial:
    cost: float
    edges: frozenset[int]


def k_best(
    derivations: Derivations,
    targets: Sequence[Goal],
    costs: dict[int, float],
    numbers: dict[Edge, int],
    k: int,
) -> list[frozenset[int]]:
    """Edge sets of up to ``k`` derivations of all ``targets``; ``costs`` by the number of the
    edge."""
    best: dict[Goal, list[_Partial]] = {}
    for goal in derivations.order:
        found: dict[frozenset[int], float] = {}
        for edge in derivations.edges[goal]:
            number = numbers[edge]
            own = costs[number]
            if not isfinite(own):
                continue
            for combo in _combine([best[c] for c in edge.children], costs, k):
                edges = combo.edges | {number}
                found.setdefault(edges, combo.cost + own)
        ranked = sorted(found.items(), key=lambda item: (item[1], sorted(item[0])))
        best[goal] = [_Partial(cost, edges) for edges, cost in ranked[:k]]
    return [p.edges for p in _combine([best.get(t, []) for t in targets], costs, k)]


def _combine(children: list[list[_Partial]], costs: dict[int, float], k: int) -> list[_Partial]:
    combos = [_Partial(0.0, frozenset())]
    for options in children:
        merged: dict[frozenset[int], float] = {}
        for left in combos:
            for right in options:
                edges = left.edges | right.edges
                if edges in merged:
                    continue
                shared = left.edges & right.edges
                cost = left.cost + right.cost - sum(costs[e] for e in shared)
                merged[edges] = cost
        ranked = sorted(merged.items(), key=lambda item: (item[1], sorted(item[0])))
        combos = [_Partial(cost, edges) for edges, cost in ranked[: 2 * k]]
    return [c for c in combos if c.cost < inf][: 2 * k]


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
