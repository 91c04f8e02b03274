"""Parts assembled from runs of a few ops, if there is little time."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

import mirage as mi
import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.optimization import Optimization
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.pipeline.parts import runs as runs_module
from mirage.pipeline.parts.part import PartSolver
from mirage.pipeline.parts.part_data import SolvedPart
from mirage.pipeline.parts.runs import Runs, together
from mirage.pipeline.result import OutOfTime
from mirage.semantics.alternatives import VerdictNote
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import (
    Contraction,
    External,
    KernelGraph,
    Launch,
    TensorType,
    Value,
)
from mirage.transforms.partition.partition import Part

OPTIONS = mi.OptimizeOptions(
    candidates=1, finalists=1, verify_seed=1, jobs=1, budget=300.0, use_cache=False, cubin=False
)
X, W = torch.randn(16, 32) * 0.1, torch.randn(32, 32) * 0.1


def two_layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two parts, which differ in their ends."""
    x = torch.softmax(torch.tanh(x @ w) @ w, 1)
    return torch.relu(torch.softmax(torch.tanh(torch.special.i0e(x) @ w) @ w, 1))


def program(function: object) -> Program:
    return mi.from_torch(function, X, W, allow_fallback=True).program


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Parts have time only for their runs, of one product each; the list gets the number of each
    run that is searched."""
    searched: list[int] = []

    class Left(parts_module.PartSolver):
        def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
            self.leave()

        def take_up(self) -> None:
            pass  # there is no time at the end either

    class Noted(runs_module.PartSolver):
        def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
            searched.append(self.number)
            super().begin(share, seconds, executor)

    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)
    monkeypatch.setattr(runs_module, "LARGEST_RUN", 2)
    monkeypatch.setattr(parts_module, "PartSolver", Left)
    monkeypatch.setattr(runs_module, "PartSolver", Noted)
    return searched


def test_parts_without_time_are_put_together_from_runs(runs: list[int]) -> None:
    """Equal runs are searched once, in whatever parts they occur."""
    result = optimize(program(two_layers), OPTIONS)
    *notes, last = result.report.notes
    assert all("is put together from smaller parts: " in note for note in notes)
    assert len(notes) == 2
    assert last == str(OutOfTime(budget=300.0, parts=2, fell_back=2, unfinished=0))
    assert result.report.out_of_time is not None
    assert last.startswith("the budget of 300 s ran out: of 2 different parts, 2 are put together")
    assert any(isinstance(op, Launch) for op in result.graph.ops)
    assert runs == sorted(set(runs))
    assert min(runs) == 2  # after the parts
    assert {c.part for c in result.verdicts} == set(runs)
    (actual,) = emulate(result, X, W)
    torch.testing.assert_close(actual, two_layers(X, W), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("calls", [False, True])
def test_views_that_leave_a_part_are_calls_between_its_runs(
    monkeypatch: pytest.MonkeyPatch, calls: bool
) -> None:
    """If calls are not allowed, such a part is not cut."""
    monkeypatch.setattr(runs_module, "LARGEST_RUN", 2)
    x, w = (Value(TensorType((32, 32), DType.F32)) for _ in range(2))
    b = Builder()
    y = b.matmul(b.unary(UnaryFn.TANH, b.matmul(x, w)), w)
    graph = KernelGraph("part", (x, w), (), (b.transpose(x, (1, 0)), y))
    graph = replace(graph, ops=tuple(b.ops))
    options = Optimization(Program(graph), OPTIONS).parts.part_options
    cut = Runs({"it": Part(graph)}, {"it": {}}, {"it": 1}, options, None, 1, calls=calls)
    cut.solve(["it"], Deadline(600.0), None)
    found = cut.put_together("it")
    assert (found is not None) == calls
    if found is not None:
        (call,) = (op for op in found.programs[1].ops if isinstance(op, External))
        assert call.target == "aten.permute.default"
        assert sum(isinstance(op, Launch) for op in found.programs[1].ops) == 2


@pytest.mark.usefixtures("runs")
def test_runs_without_an_answer_keep_their_own_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    class First(runs_module.PartSolver):
        def await_first(self) -> None:
            super().await_first()
            self.o.deadline.stop("it is late")

    monkeypatch.setattr(runs_module, "PartSolver", First)
    result = optimize(program(two_layers), replace(OPTIONS, compile=False))
    assert any(isinstance(op, Launch) for op in result.graph.ops)
    assert any(isinstance(op, Contraction) for op in result.graph.ops)


@pytest.mark.usefixtures("runs")
def test_parts_that_nothing_was_found_for_are_put_together_at_the_end(
    monkeypatch: pytest.MonkeyPatch, runs: list[int]
) -> None:
    """With time for the others, these are found as usual."""

    class Failing(PartSolver):
        def run(self) -> SolvedPart:
            assert not runs
            return self.solved() if self.number == 0 else super().run()

    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 0.0)
    monkeypatch.setattr(parts_module, "PartSolver", Failing)
    result = optimize(program(two_layers), replace(OPTIONS, compile=False))
    (note,) = result.report.notes
    assert note.startswith("part 0 is put together from smaller parts: ")
    assert len(runs) > 1
    assert any(isinstance(op, Launch) for op in result.graph.ops)


def test_chances_of_error_add_up() -> None:
    proved, likely = VerdictNote("proved", 0, ""), VerdictNote("probable", -40, "")
    assert together([proved, proved]).kind == "proved"
    both = together([proved, likely, likely])
    assert (both.kind, both.bound_log2) == ("probable", -39)
    assert together([likely, VerdictNote("probable", -60, "")]).bound_log2 == -39
