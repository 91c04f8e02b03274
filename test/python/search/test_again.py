"""Searches that go on without kernels that turned out to be of no use."""

from __future__ import annotations

from dataclasses import replace

from mirage.cost import H200
from mirage.search import Pick, Planner, SearchLimits, SearchResult
from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import Launch
from search_programs import graph, rms_linear, rms_swiglu_down, tensor

LIMITS = SearchLimits(columns=400, samples=1, derivations=2, candidates=4)


def kernels_of(result: SearchResult) -> list[Pick]:
    """The kernels of the best candidate that is one kernel or several."""
    best = result.candidates[0]
    picks = (best.pick_of(op) for op in best.graph.ops if isinstance(op, Launch))
    return list({id(p): p for p in picks if p is not None}.values())


def test_kernels_that_are_refused_give_way_to_others() -> None:
    planner = Planner(rms_swiglu_down(8, 256, 512), H200, LIMITS)
    first = planner.run()
    wrong = kernels_of(first)
    second = planner.again(wrong, 60.0)
    assert second.candidates
    assert not {id(p) for p in kernels_of(second)} & {id(p) for p in wrong}
    assert second.candidates[0].cost.time >= first.candidates[0].cost.time


def test_what_is_wrong_twice_has_no_kernels_any_more() -> None:
    """So a search that is continued comes to its end: at last every op is a kernel of its own."""
    planner = Planner(rms_linear(8, 256, 256), H200, replace(LIMITS, choices=4))
    result = planner.run()
    for _ in range(60):
        wrong = kernels_of(result)
        if not wrong:
            break
        result = planner.again(wrong, 60.0, wrong)
    assert not kernels_of(result)
    assert result.candidates


def test_ways_that_were_left_out_are_looked_at_when_all_others_are_refused() -> None:
    """A grid that splits the sum is hopeless beside one that does not, and all that is left."""
    x, w, b = tensor("x", 16, 64), tensor("w", 64, 64), Builder()
    planner = Planner(graph("product", (x, w), b, b.matmul(x, w)), H200, LIMITS)
    result = planner.run()
    launches: set[int] = set()
    for _ in range(20):
        launches.add(sum(isinstance(op, Launch) for op in result.candidates[0].graph.ops))
        result = planner.again(kernels_of(result), 60.0)
    assert {1, 2} <= launches
