"""Searches that continue without kernels that turned out to be unusable."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs.search_programs import graph, rms_linear, rms_swiglu_down, tensor
from mirage.cost import H200
from mirage.search import Pick, Planner, SearchLimits, SearchResult
from mirage.search.kernel.workers import Region, Remote
from mirage.search.limits import SearchReport
from mirage.search.program import plans
from mirage.search.program.cuts import Cuts
from mirage.search.superoptimize import structure_of
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch

LIMITS = SearchLimits(columns=400, samples=1, derivations=2, candidates=4)


def kernels_of(result: SearchResult) -> list[Pick]:
    """Return the kernels of the best candidate that consists of one kernel or of several."""
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


def test_kernels_whose_sizes_are_to_blame_give_way_to_other_sizes() -> None:
    """Other kernels of the same structure may still be usable."""
    planner = Planner(rms_swiglu_down(8, 256, 512), H200, LIMITS)
    wrong = kernels_of(planner.run())
    others = planner.again(wrong, 60.0, sizes=True)
    assert not {id(p) for p in kernels_of(others)} & {id(p) for p in wrong}
    shapes = [structure_of(p.written) for p in wrong]
    assert any(structure_of(p.written) in shapes for p in kernels_of(others))
    assert [p.written for p in kernels_of(others)] != [p.written for p in wrong]


def test_how_the_program_can_be_cut_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Cuts] = []
    monkeypatch.setattr(plans, "Cuts", lambda *args: built.append(Cuts(*args)) or built[-1])
    planner = Planner(rms_swiglu_down(8, 256, 512), H200, LIMITS)
    planner.again(kernels_of(planner.run()), 60.0)
    assert len(built) == 1


def test_what_is_wrong_twice_has_no_kernels_any_more() -> None:
    """So a continued search ends: in the last step every op is a separate kernel."""
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
    """A grid that splits the sum is hopeless compared with one that does not, but the only one
    left."""
    x, w, b = tensor("x", 16, 64), tensor("w", 64, 64), Builder()
    planner = Planner(graph("product", (x, w), b, b.matmul(x, w)), H200, LIMITS)
    result = planner.run()
    launches: set[int] = set()
    for _ in range(20):
        launches.add(sum(isinstance(op, Launch) for op in result.candidates[0].graph.ops))
        result = planner.again(kernels_of(result), 60.0)
    assert {1, 2} <= launches


@pytest.mark.parametrize("share", [0.4, 0.8, 1.0])
def test_parts_without_a_kernel_share_what_they_compute(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """A cast that several parts read occurs once if these parts keep their own ops because no
    kernel was found in the time, or all were refused."""
    x, u, v = tensor("x", 8, 64), tensor("u", 64, 64), tensor("v", 64, 64)
    b = Builder()
    wide = b.cast(x, DType.F32)
    norm = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, wide), (1,))
    scaled = b.cast(b.binary(BinaryFn.MUL, wide, b.unary(UnaryFn.RSQRT, norm)), DType.F16)
    y = b.binary(BinaryFn.ADD, b.matmul(scaled, u), x)
    z = b.matmul(b.cast(b.unary(UnaryFn.EXP, wide), DType.F16), v)
    program = KernelGraph("shared", (x, u, v), tuple(b.ops), (y, z))
    rng = random.Random(0)
    empty: dict[object, bool] = {}
    real = Planner._solve  # pyright: ignore[reportPrivateUsage]

    def solve(self: Planner, region: Region) -> list[Pick]:
        if empty.setdefault(region.key, rng.random() < share):
            return []
        return real(self, region)

    monkeypatch.setattr(Planner, "_solve", solve)
    result = Planner(program, H200, LIMITS).run()
    inputs = [
        np.random.default_rng(i).standard_normal(v.shape) / 8 for i, v in enumerate((x, u, v))
    ]
    want = evaluate_floats(program, inputs)
    assert result.candidates
    for c in result.candidates:
        check_graph(c.graph)
        for got, expected in zip(evaluate_floats(c.graph, inputs), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_a_search_goes_on_within_other_limits() -> None:
    """Kernels that the first few plans left out are then found, and known results are not searched
    again."""
    program = rms_swiglu_down(8, 256, 512)
    whole = Planner(program, H200, LIMITS).run()
    planner = Planner(program, H200, replace(LIMITS, plans=1))
    few = planner.run()
    assert "plans" in few.report.limits
    known = dict(planner.memo)
    more = planner.go_on(LIMITS)
    assert [c.cost.time for c in more.candidates] == [c.cost.time for c in whole.candidates]
    assert more.report.limits.keys() == whole.report.limits.keys()
    assert all(planner.memo[key] is picks for key, picks in known.items())


def test_what_was_cancelled_is_solved_when_it_is_wanted_again() -> None:
    planner = Planner(rms_linear(8, 256, 256), H200, LIMITS)
    waiting: list[Future[Any]] = []

    class Waiting(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            waiting.append(Future())
            if len(waiting) > 1:
                waiting[-1].set_result(fn(*args, **kwargs))
            return waiting[-1]

    remote = Remote(Waiting(), H200, LIMITS, SearchReport())
    value = planner.graph.outputs[0]
    region = planner.program.region((value,), planner.program.live)
    remote.submit(region, 2)
    remote.cancel()
    assert waiting[0].cancelled()
    assert remote.result(region) is None
    remote.submit(region, 2)
    assert remote.result(region)


def test_kernels_of_single_ops_have_the_constants_that_they_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no plan is found in the time; a constant is not a tensor that a kernel could read."""
    x, b = tensor("x", 8, 64), Builder()
    wide = b.binary(BinaryFn.MUL, b.cast(x, DType.F32), b.constant(1.0 / 64.0))
    total = b.binary(BinaryFn.ADD, b.reduce(ReduceFn.SUM, wide, (1,)), b.constant(1e-6))
    program = graph("scaled", (x,), b, total)
    monkeypatch.setattr(plans.PlanSearch, "plans", lambda self: [])
    result = Planner(program, H200, LIMITS).run()
    assert kernels_of(result)
    for candidate in result.candidates:
        check_graph(candidate.graph)
        inputs = [np.random.default_rng(0).standard_normal(x.shape)]
        (want,), (got,) = (evaluate_floats(g, inputs) for g in (program, candidate.graph))
        np.testing.assert_allclose(got, want, rtol=1e-9)
