"""Candidates that are compiled before one is chosen, and the choice by measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import mirage as mi
import pytest
import torch
from example_programs.built import linear
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.pipeline import rank
from mirage.pipeline.compile import compile_candidates
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.measure import NothingToMeasureError, fastest
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.rank import finalist, resources_of
from mirage.pipeline.result import Finalist, Step
from mirage.pipeline.select import select_cheapest
from mirage.runtime.errors import NoGpuError
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Launch, launches


@pytest.fixture(scope="module")
def optimized() -> mi.Optimized:
    return optimize(linear(512, 256), OptimizeOptions(finalists=3, verify_seed=0))


def test_the_first_finalist_is_chosen(optimized: mi.Optimized) -> None:
    finalists = optimized.finalists
    assert 1 < len(finalists) <= 3
    assert optimized.graph is finalists[0].graph
    times = [f.predicted for f in finalists]
    assert times == sorted(times)
    assert len({f.place for f in finalists}) == len(finalists)
    assert optimized.report.prediction is finalists[0].prediction


@pytest.mark.parametrize("count", [1, 2])
def test_first_answers_come_after_better_ones_where_nothing_is_predicted(
    monkeypatch: pytest.MonkeyPatch, optimized: mi.Optimized, count: int
) -> None:
    """The whole has no prediction if something in it has none, such as a call of PyTorch; the parts
    have."""
    from mirage.mlir_io import graph_from_text

    monkeypatch.setattr(rank, "predict", lambda *_: None)
    target = target_for("sm_90a")
    verified = graph_from_text(optimized.mlir["verified"]).graph
    cheapest, _ = select_cheapest(verified, target)
    earlier, _ = select_cheapest(verified, target, 1)
    first = Finalist(earlier, (), 0, None, 0, ())
    found = rank.finalists(verified, target, count, lambda _: (), print, known=[first])
    assert [signature(f.graph) for f in found] == [signature(cheapest), signature(earlier)]
    again = rank.finalists(verified, target, 1, lambda _: (), print, known=found[:1])
    assert again == found[:1]


def test_no_candidate_is_compiled_for_which_there_is_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiling the first takes longer than the rest of the budget."""
    passed = 0.0
    steps = Builder.steps

    def slow(self: Builder, selected: KernelGraph) -> Iterator[Step]:
        nonlocal passed
        passed += 1000.0
        return steps(self, selected)

    monkeypatch.setattr(Builder, "steps", slow)
    monkeypatch.setattr(compile_candidates, "time", SimpleNamespace(perf_counter=lambda: passed))
    assert len(optimize(linear(512, 256), OptimizeOptions(finalists=3)).finalists) == 1


def test_predictions_use_what_the_compiler_reports(optimized: mi.Optimized) -> None:
    first = optimized.finalists[0]
    resources = resources_of(optimized.artifact.manifest)
    launches = [op for op in first.graph.ops if isinstance(op, Launch)]
    assert len(resources) == len(launches)
    cost = predict(first.graph, target_for("sm_90a"), resources)
    assert cost is not None
    assert cost.time == first.predicted
    assert cost.shared == max(r.shared_bytes for r in resources)


def test_resources_are_those_of_the_same_launch_whatever_the_order() -> None:
    """Kernels may be compiled in another order than that of the chosen program."""
    tensors = torch.zeros(16, 64), torch.zeros(64, 64).half()
    program = mi.from_torch(lambda x, w: (torch.exp(x), w @ w), *tensors)
    two = program.superoptimize(chip="sm_90a", jobs=1)
    (step,) = two.finalists[0].steps
    assert step.graph is not None
    assert step.compiled is not None
    kernels = list(launches(step.graph.ops))
    needed = resources_of(step.compiled.artifact.manifest)
    assert len(set(needed)) == len(kernels) == 2
    target = target_for("sm_90a")
    for order in (1, -1):
        graph = replace(two.graph, ops=tuple(kernels[::order]))
        expected = predict(graph, target, needed[::order])
        assert expected is not None
        assert finalist(graph, 0, target, [step], print).predicted == expected.time
    artifact = step.compiled.artifact
    kernel = replace(artifact.manifest.kernels[0], shared_bytes=200_000)
    compiled = replace(
        step.compiled,
        artifact=replace(artifact, manifest=replace(artifact.manifest, kernels=(kernel,))),
    )
    one = replace(step, graph=replace(step.graph, ops=tuple(kernels[:1])), compiled=compiled)
    found = finalist(two.graph, 0, target, [one], print)
    assert found.prediction is not None
    assert found.prediction.shared == 200_000  # the other kernel is estimated


def test_another_finalist(optimized: mi.Optimized) -> None:
    other = optimized.with_finalist(1)
    assert other.graph is optimized.finalists[1].graph
    assert other.finalists[0] is optimized.finalists[1]
    assert {id(f) for f in other.finalists} == {id(f) for f in optimized.finalists}
    assert other.mlir["selected"] != optimized.mlir["selected"]
    assert other.mlir["verified"] == optimized.mlir["verified"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_measuring_needs_a_gpu(optimized: mi.Optimized) -> None:
    with pytest.raises(NoGpuError, match="needs a GPU"):
        fastest(optimized, torch.zeros(16, 512), torch.zeros(512, 256))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_measured_best_is_taken(optimized: mi.Optimized) -> None:
    x, w = (torch.randn(s, device="cuda").half() for s in ((16, 512), (512, 256)))
    measured = fastest(optimized, x, w, rounds=3)
    assert len(measured.microseconds) == len(optimized.finalists)
    best = optimized.finalists[measured.microseconds.index(min(measured.microseconds))]
    assert measured.optimized.graph is best.graph
    (y,) = measured.optimized(x, w)
    assert torch.isfinite(y).all()
    bare = optimize(linear(512, 256), OptimizeOptions(compile=False, verify_seed=0))
    with pytest.raises(NothingToMeasureError):
        fastest(bare, x, w)


def test_bad_number_of_finalists() -> None:
    with pytest.raises(MirageError, match="positive integer as the number of finalists"):
        OptimizeOptions(finalists=0)


def test_select_keeps_the_cheapest_candidates(optimized: mi.Optimized) -> None:
    from mirage.mlir_io import graph_from_text
    from mirage.pipeline.select import keep_cheapest, ranking, select_cheapest
    from mirage.semantics.alternatives import Alternatives

    target = target_for("sm_90a")
    verified = graph_from_text(optimized.mlir["verified"]).graph
    kept, without = keep_cheapest(verified, target, 2)
    assert not without
    (before,) = (op for op in verified.ops if isinstance(op, Alternatives))
    (after,) = (op for op in kept.ops if isinstance(op, Alternatives))
    assert after.programs[0] is before.programs[0]
    places = [place for _, place in ranking(before, target)]
    assert list(after.programs[1:]) == [before.programs[p] for p in places[:2]]
    assert after.verdicts is not None
    assert len(after.verdicts) == 2
    assert after.costs is not None
    assert after.costs[1:] == tuple(time for time, _ in ranking(after, target))
    first, _ = select_cheapest(kept, target)
    assert len(first.ops) == len(before.programs[places[0]].ops)


def test_the_pass_keeps_them_too(optimized: mi.Optimized) -> None:
    from mirage import ir
    from mirage.passes.registry import add_to
    from mirage.passmanager import PassManager

    def select(keep: int) -> str:
        with ir.Context():
            module = ir.Module.parse(optimized.mlir["verified"])
            manager = PassManager("builtin.module")
            add_to(manager, "mirage-select", keep=keep)
            manager.run(module.operation)
            return str(module)

    assert select(2).count("#kernel.verdict<") == 2
    assert "form = #kernel.form<verified>" in select(2)
    assert "kernel.alternatives" not in select(1)
