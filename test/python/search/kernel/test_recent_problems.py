"""The results for the last few problems are kept: this does not change the results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mirage.cost.target import DEFAULT_CHIP, TARGETS
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel import recent_problems
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.recent_problems import RecentProblem, RecentProblems
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value, launches


def projections() -> KernelGraph:
    """A product of many columns and two of few, with the same left factor."""
    b, x = Builder(), Value(TensorType((8, 512), DType.F16), "x")
    weights = [Value(TensorType((512, n), DType.F16), f"w{n}") for n in (1024, 256)]
    products = tuple(b.matmul(x, w) for w in weights)
    return KernelGraph("projections", (x, *weights), tuple(b.ops), products)


def found() -> list[Any]:
    """Return the candidates' times and grids."""
    candidates = superoptimize(projections(), TARGETS[DEFAULT_CHIP], SearchLimits()).candidates
    return [
        (c.cost.time, [[a.extent for a in launch.grid] for launch in launches(c.graph.ops)])
        for c in candidates
    ]


def test_results_are_the_same_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    picks = RecentProblem.picks

    def counted(self: RecentProblem, *kind: Any) -> Any:
        known = picks(self, *kind)
        used.append(known is not None)
        return known

    monkeypatch.setattr(RecentProblem, "picks", counted)
    with_them = found()
    assert any(used)
    monkeypatch.setattr(RecentProblems, "get", lambda *_: None)
    assert found() == with_them


def test_the_oldest_problem_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_problems, "KEPT", 2)
    recent, limits = RecentProblems(), SearchLimits()
    graph = projections()
    definitions = {r: op for op in graph.ops for r in op.results}
    problem = KernelProblem(graph.outputs, graph.inputs, definitions, AxisTable.of(graph))
    several = [replace(problem, narrower=problem.narrower * n) for n in (1, 2, 3)]
    for each in several:
        recent.add(each, limits, [])
    assert [recent.get(p, limits) is None for p in several] == [True, False, False]
    assert recent.get(several[2], replace(limits, samples=1)) is None
