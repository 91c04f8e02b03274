"""A first answer for each part before any is searched for long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from typing import Any, TypeVar, cast

import mirage as mi
import pytest
import torch
from example_programs.built import linear
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.compile import compile_candidates
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.pipeline.parts.apart import Awaited, Request
from mirage.pipeline.search import search_part, side_by_side
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import kept_of, parts_of
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.verify import Kind, VerifyOptions

FAST = mi.OptimizeOptions(candidates=2, compile=False, verify_seed=1, jobs=1, budget=600.0)
T = TypeVar("T")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)


@pytest.fixture(scope="module")
def two_parts() -> Program:
    x, w = torch.randn(16, 32), torch.randn(32, 32)
    imported = mi.from_torch(
        lambda x, w: torch.relu(torch.special.i0e(x @ w) @ w), x, w, allow_fallback=True
    )
    return imported.program


def kernels(result: mi.Optimized) -> int:
    return sum(isinstance(op, Launch) for op in result.graph.ops)


@pytest.mark.usefixtures("hurried")
def test_every_part_has_an_answer_before_one_gets_a_better_one(
    monkeypatch: pytest.MonkeyPatch, two_parts: Program
) -> None:
    done: list[tuple[str, int]] = []

    class Noted(parts_module.PartSolver):
        def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
            done.append(("begin", self.number))
            super().begin(share, seconds, executor)

        def better(self, share: float, seconds: float) -> None:
            done.append(("better", self.number))
            super().better(share, seconds)

    monkeypatch.setattr(parts_module, "PartSolver", Noted)
    result = optimize(two_parts, FAST)
    assert [what for what, _ in done] == ["begin", "begin", "better", "better"]
    assert kernels(result) == 2
    assert all(c.verdict.kind is Kind.PROVED for c in result.verdicts)


def test_nothing_is_lost_by_a_first_answer(
    monkeypatch: pytest.MonkeyPatch, two_parts: Program
) -> None:
    calm = optimize(two_parts, FAST)
    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)
    assert calm.report.prediction is not None
    for options in (FAST, replace(FAST, jobs=2)):
        hurried = optimize(two_parts, options)
        assert hurried.report.prediction is not None
        assert hurried.report.prediction.time == pytest.approx(calm.report.prediction.time)


@pytest.mark.usefixtures("hurried")
def test_the_first_answer_remains_where_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, two_parts: Program
) -> None:
    """The time ends with the first answers; parts have them."""

    class Late(parts_module.PartSolver):
        def await_first(self) -> None:
            super().await_first()
            self.o.deadline.stop("it is late")

    monkeypatch.setattr(parts_module, "PartSolver", Late)
    result = optimize(two_parts, FAST)
    assert kernels(result) > 0
    assert result.report.prediction is not None


@pytest.mark.usefixtures("hurried")
def test_where_its_own_ops_are_faster_than_a_first_answer_a_part_keeps_them(
    monkeypatch: pytest.MonkeyPatch, two_parts: Program
) -> None:
    class Late(parts_module.PartSolver):
        def await_first(self) -> None:
            super().await_first()
            self.o.deadline.stop("it is late")
            vars(self.candidates)["time_without"] = 0.0

    monkeypatch.setattr(parts_module, "PartSolver", Late)
    result = optimize(two_parts, FAST)
    assert kernels(result) == 0
    assert any("predicted to be faster" in note for note in result.report.notes)


@pytest.mark.usefixtures("hurried")
def test_better_answers_are_looked_for_first_where_most_places_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second part is equal to the third."""
    order: list[int] = []

    class Noted(parts_module.PartSolver):
        time = 1.0

        def better(self, share: float, seconds: float) -> None:
            order.append(self.number)

    def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.special.i0e(x)
            x = torch.relu(x @ w)
        return x

    monkeypatch.setattr(parts_module, "PartSolver", Noted)
    x, w = torch.randn(16, 32), torch.randn(32, 32)
    twice = mi.from_torch(
        lambda x, w: layers(torch.tanh(x @ w), w), x, w, allow_fallback=True
    ).program
    optimize(twice, FAST)
    assert order == [1, 0]


@pytest.mark.usefixtures("hurried")
def test_what_there_is_no_time_to_verify_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, two_parts: Program
) -> None:
    """With more time, more may be found, and the kept entry says so."""
    solvers: dict[int, Slow] = {}

    class Slow(parts_module.PartSolver):
        def await_first(self) -> None:
            super().await_first()
            self.took = 1e9
            solvers[self.number] = self

    monkeypatch.setattr(parts_module, "PartSolver", Slow)
    result = optimize(two_parts, FAST)
    assert kernels(result) > 0
    assert len(result.verdicts) == len(solvers) == 2
    assert all(solver.late for solver in solvers.values())


@pytest.mark.usefixtures("hurried")
def test_a_first_answer_is_compiled_while_the_search_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If there is no time to compile anything else, it is the result."""
    monkeypatch.setattr(compile_candidates, "ANOTHER", 1e9)
    result = optimize(linear(512, 256), replace(FAST, compile=True, jobs=2, check_kernels=False))
    assert len(result.finalists) == 1
    assert result.finalists[0].verdicts
    assert result.steps[0].compiled is not None


class Dying(Executor):
    """Its workers die before they have done anything."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("a worker died"))
        return cast("Future[T]", future)


@pytest.mark.parametrize("executor", [None, Dying()])
def test_what_workers_do_not_verify_is_verified_when_it_is_asked_for(
    executor: Executor | None,
) -> None:
    graph = linear().program().graph
    _, found = search_part(graph, target_for("h200"), SearchLimits(candidates=1))
    op = side_by_side(graph, found)
    around = KernelGraph("part", op.operands, (op,), op.results)
    (stable,) = parts_of(stabilize_candidates(around)[0])
    until = Deadline(600.0).at
    request = Request(kept_of(stable, [1]), {}, VerifyOptions(seed=1), {}, False, until, 600.0)
    (verdict,), pieces, seconds = Awaited(request, executor).result()
    assert verdict.kind is Kind.PROVED
    assert pieces
    assert seconds > 0.0
