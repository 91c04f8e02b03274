"""Regions that differ only in their values are solved once, and have the same kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search import SearchLimits, SearchReport, superoptimize
from mirage.search.kernel.equal_regions import EqualRegions
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Region
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Value, launches, values_in

LIMITS = SearchLimits(columns=400)


def gated() -> KernelGraph:
    """Two products of the same rows with weights of equal shapes, and one with a third weight,
    which is narrower; all f16, divided along the depth."""
    b, x = Builder(), tensor("x", 4, 2048, dtype=DType.F16)
    weights = [tensor(f"w{i}", 2048, n, dtype=DType.F16) for i, n in enumerate((64, 64, 32))]
    return graph("gated", (x, *weights), b, *(b.matmul(x, w) for w in weights))


def regions(program: KernelGraph) -> list[Region]:
    """Return the region of each result."""
    found = Program(program, H200, SearchReport())
    return [found.region((output,), ()) for output in program.outputs]


def test_kinds_are_those_of_what_is_computed() -> None:
    first, second, narrower = (region.kind for region in regions(gated()))
    assert first == second != narrower


def test_kinds_are_those_of_what_is_known_of_the_tensors() -> None:
    first, second, _ = regions(gated())
    assert replace(second, hot=(1,)).kind != first.kind
    assert replace(second, tables=((1, 64.0),)).kind != first.kind
    scales = replace(second.scales, kept=second.scales.kept + 1.0)
    assert replace(second, scales=scales).kind != first.kind


def test_kinds_are_those_of_the_roles_of_tensors() -> None:
    """A weight whose product is divided by another one grows differently from one that is not."""
    b, x = Builder(), tensor("x", 4, 64)
    weights = [tensor(f"w{i}", 64, 64) for i in range(2)]
    products = [b.matmul(x, w) for w in weights]
    wide = b.binary(BinaryFn.MUL, products[0], products[0])
    program = graph("unlike", (x, *weights), b, wide, *products)
    _, first, second = (region.kind for region in regions(program))
    assert first != second


def test_ways_are_those_of_the_equal_region() -> None:
    """They are emitted for the other values, and share none with each other."""
    program = gated()
    first, second, narrower = regions(program)
    solver = KernelSolver(H200, LIMITS, SearchReport())
    known = EqualRegions(solver.write)
    picks = solver.solve(first.problem(), 8)
    solver.write(picks[0])
    known.add(first, picks)
    assert known.picks(narrower) is None
    others = known.picks(second)
    assert others is not None
    assert [p.time for p in others] == [p.time for p in picks]
    assert [p.work == q.work for p in others for q in others] == [
        p.work == q.work for p in picks for q in picks
    ]
    assert others[0].written is not None
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(v.shape) for v in second.graph.inputs]
    (wanted,) = evaluate_floats(second.graph, inputs)
    for pick, other in zip(picks, others, strict=True):
        mine, its = solver.write(pick), solver.write(other)
        assert (mine is None) == (its is None)
        if mine is None or its is None:
            continue
        shared = {*values_in(mine.ops)}.intersection(values_in(its.ops))
        assert shared <= {*first.graph.inputs}
        (kernel, *_) = launches(its.ops)
        assert [p.name for p in kernel.body.params] == [v.name for v in kernel.operands]
        whole = KernelGraph("way", second.graph.inputs, its.ops, second.graph.outputs)
        check_graph(whole)
        np.testing.assert_allclose(evaluate_floats(whole, inputs)[0], wanted, rtol=1e-2, atol=1e-2)


def test_the_next_sizes_are_those_of_the_equal_way() -> None:
    first, second, _ = regions(gated())
    solver = KernelSolver(H200, LIMITS, SearchReport())
    known = EqualRegions(solver.write)
    picks = solver.solve(first.problem(), 8)
    known.add(first, picks)
    others = known.picks(second)
    assert others is not None
    for pick, other in zip(picks, others, strict=True):
        mine, its = pick.next(), other.next()
        assert (mine is None) == (its is None)
        if mine is not None and its is not None and solver.write(mine) is not None:
            written = solver.write(its)
            assert mine.time == its.time
            assert written is not None
            assert {*second.graph.outputs} <= {r for op in written.ops for r in op.results}


def test_a_search_finds_the_same_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[Value] = []
    solve = KernelSolver.solve

    def counted(self: KernelSolver, problem, *count, **how):  # type: ignore[no-untyped-def]
        solved.extend(problem.outputs if len(problem.outputs) == 1 else ())
        return solve(self, problem, *count, **how)

    def candidates() -> list[str]:
        found = superoptimize(gated(), H200, LIMITS).candidates
        for candidate in found:
            check_graph(candidate.graph)
        return [signature(candidate.graph) for candidate in found]

    monkeypatch.setattr(KernelSolver, "solve", counted)
    known = candidates()
    often = len(solved)
    monkeypatch.setattr(EqualRegions, "picks", lambda *_: None)
    assert candidates() == known
    assert len(solved) - often > often
