"""The use of a part's time, and the candidates that are examined."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mirage as mi
import numpy as np
import pytest
from example_programs.built import linear
from mirage.cost import H200, Target
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.pipeline.parts import part as part_module
from mirage.pipeline.parts import seconds
from mirage.pipeline.parts.part_candidates import PartCandidates
from mirage.pipeline.parts.seconds import BUSIEST, SEARCHED
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import External, KernelGraph, Launch
from mirage.verify import Kind, Verdict
from mirage.verify.candidates import together
from mirage.verify.pair.examine import examine

FAST = mi.OptimizeOptions(candidates=2, compile=False, verify_seed=1, jobs=1)


@pytest.mark.parametrize("programs", [0.5, 3.0, 100.0])
def test_verification_leaves_time_to_compile(
    monkeypatch: pytest.MonkeyPatch, programs: float
) -> None:
    """The time is that of the largest candidate, with as many programs on each processor."""
    waiting = programs * (os.cpu_count() or 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (waiting, 0.0, 0.0))
    times = min(max(1.0, programs), BUSIEST)
    ends: list[tuple[float, int]] = []
    real = part_module.verify_candidates

    def noted(graph: KernelGraph, *rest: Any) -> Any:
        (op,) = graph.ops
        assert isinstance(op, Alternatives)
        kernels = max(sum(isinstance(x, Launch) for x in p.ops) for p in op.programs[1:])
        ends.append((rest[-1], kernels))
        return real(graph, *rest)

    monkeypatch.setattr(part_module, "verify_candidates", noted)
    monkeypatch.setattr(part_module, "VERIFIED", 1.0)
    monkeypatch.setattr(seconds, "COMPILE", 50.0)
    monkeypatch.setattr(seconds, "COMPILE_KERNEL", 10.0)
    start = time.time()
    optimize(linear().program(), replace(FAST, budget=1000.0))
    assert ends
    for end, kernels in ends:
        reserved = times * (50.0 + 10.0 * kernels)
        assert start < end <= start + 1000.0 + 5.0 - reserved


def test_the_search_leaves_time_to_verify_and_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part gets its share of the program."""
    budgets: list[float] = []
    real = part_module.search_part

    def noted(graph: KernelGraph, target: Target, limits: SearchLimits, *rest: Any) -> Any:
        budgets.append(limits.budget)
        return real(graph, target, limits, *rest)

    monkeypatch.setattr(part_module, "search_part", noted)
    for module in (part_module, seconds):
        monkeypatch.setattr(module, "busy", lambda _: 1.0)
    monkeypatch.setattr(seconds, "COMPILE", 100.0)
    monkeypatch.setattr(seconds, "COMPILE_KERNEL", 20.0)
    optimize(linear().program(), replace(FAST, budget=1000.0))
    assert budgets
    most = SEARCHED * (1000.0 - 100.0 - 20.0)  # one product
    assert most - 20.0 < budgets[0] <= most


def test_later_parts_leave_time_to_compile_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    given: list[float] = []
    reserved: list[float] = []

    class Noted(parts_module.PartSolver):
        def within(self, deadline: Deadline) -> None:
            given.append(deadline.seconds)
            super().within(deadline)

        def compiling(self) -> float:
            reserved.append(super().compiling())
            return reserved[-1]

    monkeypatch.setattr(parts_module, "PartSolver", Noted)
    for module in (part_module, seconds):
        monkeypatch.setattr(module, "busy", lambda _: 1.0)
    monkeypatch.setattr(seconds, "COMPILE", 60.0)
    monkeypatch.setattr(seconds, "COMPILE_KERNEL", 200.0)
    x, w = torch.randn(16, 32), torch.randn(32, 32)
    imported = mi.from_torch(
        lambda x, w: torch.relu(torch.special.i0e(x @ w) @ w), x, w, allow_fallback=True
    )
    optimize(imported.program, replace(FAST, budget=1000.0))
    assert len(given) == len(reserved) == 2
    assert reserved[0] >= 200.0  # its kernel, and its share of what every program takes
    assert given[0] < 600.0
    assert 700.0 < given[1] <= 1000.0 - reserved[0]


def test_what_was_too_late_blames_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def late(reference: KernelGraph, candidate: KernelGraph, *rest: Any) -> object:
        calls.append(candidate)
        if len(calls) == 1:
            return Verdict(Kind.UNKNOWN, None, (), 0, late=True)
        return examine(reference, candidate, *rest)

    monkeypatch.setattr(together, "examine", late)
    said: list[str] = []
    result = optimize(linear().program(), replace(FAST, watch=said.append))
    assert not any("continues without" in text for text in said)
    assert [c.kept for c in result.verdicts] == [False, True]


def test_the_cheapest_are_verified_first_until_there_are_enough() -> None:
    few = optimize(linear().program(), replace(FAST, candidates=4, finalists=1))
    many = optimize(linear().program(), replace(FAST, candidates=4, finalists=4))
    assert len(few.verdicts) == 1
    assert len(many.verdicts) == 4
    times = [c.cost.time for s in few.report.searches for c in s.candidates]
    others = [c.cost.time for s in many.report.searches for c in s.candidates]
    assert times == [min(others)]
    assert few.report.prediction == many.report.prediction


@pytest.mark.parametrize(("hurried", "batches"), [(0.0, [3]), (1e9, [1, 2])])
def test_in_a_hurry_the_cheapest_is_verified_first(
    monkeypatch: pytest.MonkeyPatch, hurried: float, batches: list[int]
) -> None:
    """The verified programs are the same."""
    sizes: list[int] = []
    real = part_module.verify_candidates

    def noted(graph: KernelGraph, *rest: Any) -> Any:
        (op,) = graph.ops
        assert isinstance(op, Alternatives)
        sizes.append(len(op.programs) - 1)
        return real(graph, *rest)

    monkeypatch.setattr(part_module, "verify_candidates", noted)
    monkeypatch.setattr(part_module, "ONE_FIRST", hurried)
    result = optimize(linear().program(), replace(FAST, budget=600.0, candidates=4, finalists=3))
    assert [c.kept for c in result.verdicts] == [True] * 3
    assert sizes == batches


def test_equal_parts_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second place gets the candidates of the first, on its own operands."""
    import torch

    searched: list[KernelGraph] = []
    real = parts_module.PartSolver

    def counted(graph: KernelGraph, *rest: Any) -> Any:
        searched.append(graph)
        return real(graph, *rest)

    def layers(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = torch.special.i0e(torch.relu(x @ a) * 0.5)
        return torch.special.i0e(torch.relu(y @ b) * 0.5) * 3.0

    monkeypatch.setattr(parts_module, "PartSolver", counted)
    tensors = [torch.randn(16, 32), torch.randn(32, 32), torch.randn(32, 32)]
    imported = mi.from_torch(layers, *tensors, allow_fallback=True)
    result = optimize(imported.program, FAST)
    assert len(searched) == 2  # of three parts
    check_graph(result.graph)
    launches = [op for op in result.graph.ops if isinstance(op, Launch)]
    assert len(launches) == 3
    calls = [op for op in result.graph.ops if isinstance(op, External)]
    values = dict(zip(result.graph.inputs, (t.double().numpy() for t in tensors), strict=True))
    for op in result.graph.ops:
        inputs = [values[v] for v in op.operands]
        if op in calls:
            values[op.results[0]] = torch.special.i0e(torch.from_numpy(inputs[0])).numpy()
        else:
            alone = KernelGraph("one", op.operands, (op,), op.results)
            values.update(zip(op.results, evaluate_floats(alone, inputs), strict=True))
    want = layers(*(t.double() for t in tensors)).numpy()
    np.testing.assert_allclose(values[result.graph.outputs[0]], want, rtol=1e-9)


def test_candidates_are_passed_over_for_verified_ones_only() -> None:
    """If none of the preferred candidates is accepted, the others are verified."""
    graph = linear().program().graph
    result = superoptimize(graph, H200, SearchLimits(columns=400, candidates=6))
    options: Any = SimpleNamespace(
        target=H200, wanted=2, timed=lambda name: nullcontext(), watch_verdict=None
    )
    candidates = PartCandidates(graph, 0, options, {})
    first = candidates.shortlisted(result, 2)
    assert candidates.promises_more(result)
    second = candidates.shortlisted(result, 2)
    assert len(first.tried) == len(second.tried) == 2
    assert not {id(c) for c in first.tried} & {id(c) for c in second.tried}
    candidates.enter(second)
    candidates.judged(0, second.stable, ())
    assert not candidates.promises_more(result)
    assert not candidates.shortlisted(result, 2).tried
