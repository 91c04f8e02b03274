"""Programs that are large for their budget: the steps that are omitted to meet it. The tests
control the time, or count steps that must not happen."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

import mirage as mi
import mirage.compiler
import pytest
import torch
from clock import Clock
from mirage.frontend.program import Program
from mirage.pipeline import deadline as deadline_module
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.compile.own_ops import different_kernels, kernels_of
from mirage.pipeline.deadline import FOR_COMPILATION
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.pipeline.parts import seconds as seconds_module
from mirage.pipeline.parts.part_data import SolvedPart, of_own_ops
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import External, KernelGraph

OPTIONS = mi.OptimizeOptions(
    candidates=1, finalists=1, verify_seed=1, jobs=1, budget=10.0, use_cache=False, cubin=False
)
PARTS = 12
X, W = torch.randn(16, 32) * 0.1, torch.randn(32, 32) * 0.1


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for k in range(2, PARTS + 2):
        x = torch.special.i0e(torch.softmax(x @ w[:, : 2 * k], 1) @ w[: 2 * k] + x)
    return x


@pytest.fixture(scope="module")
def program() -> Program:
    return mi.from_torch(layers, X, W, allow_fallback=True).program


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadline_module, "time", clock)
    monkeypatch.setattr(seconds_module, "busy", lambda _: 1.0)
    return clock


@pytest.mark.parametrize(("takes", "most"), [(2.0, 5), (0.5, PARTS), (20.0, 1)])
def test_no_first_answer_is_looked_for_that_comes_too_late(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, program: Program, takes: float, most: int
) -> None:
    """The next one may take as long as the previous one, and all of them are to be compiled."""
    begun: list[int] = []
    run: list[int] = []

    class Slow(parts_module.PartSolver):
        def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
            begun.append(self.number)
            clock.now += takes

        def run(self) -> SolvedPart:
            run.append(self.number)
            return self.solved()

    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)
    monkeypatch.setattr(parts_module, "PartSolver", Slow)
    start = clock.now
    result = optimize(program, replace(OPTIONS, compile=False))
    assert 1 <= len(begun) <= most
    assert {*begun} <= {*run}
    assert clock.now - start <= max(OPTIONS.budget, takes)
    left = [note for note in result.report.notes if note.endswith(FOR_COMPILATION)]
    if clock.now - start < OPTIONS.budget:
        assert len(left) == PARTS - len({*begun, *run})


def test_parts_that_were_left_are_taken_up_where_there_is_time_after_all(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, program: Program
) -> None:
    """Compilation was estimated to take longer while other programs used the processors."""
    begun: list[int] = []
    run: list[int] = []

    class Noted(parts_module.PartSolver):
        def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
            begun.append(self.number)
            clock.now += 0.1

        def run(self) -> SolvedPart:
            run.append(self.number)
            clock.now += 0.1
            return self.solved()

    def answered() -> None:
        monkeypatch.setattr(seconds_module, "busy", lambda _: 1.0)

    monkeypatch.setattr(seconds_module, "busy", lambda _: 3.0)
    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)
    monkeypatch.setattr(parts_module, "PartSolver", Noted)
    monkeypatch.setattr(parts_module.Parts, "_improve", lambda _: answered())
    result = optimize(program, replace(OPTIONS, compile=False))
    assert 1 <= len(begun) < PARTS
    assert sorted(run) == list(range(PARTS))
    assert not [note for note in result.report.notes if note.endswith(FOR_COMPILATION)]


def test_without_time_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    """The program's own ops are then calls of PyTorch, which need no compilation."""

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("expected nothing to be compiled")

    monkeypatch.setattr(mirage.compiler, "compile_text", compiled)
    result = optimize(program, replace(OPTIONS, budget=1e-3))
    assert all(isinstance(op, External) for op in result.graph.ops)
    assert any("no time to compile them" in note for note in result.report.notes)
    (actual,) = emulate(result, X, W)
    torch.testing.assert_close(actual, layers(X, W), rtol=1e-3, atol=1e-3)


def test_own_ops_that_were_left_for_lack_of_time_are_looked_for_again(program: Program) -> None:
    """A run with more time does not reuse the incomplete results of one with less."""
    kept = replace(OPTIONS, use_cache=True, budget=1e-3, check_kernels=False)
    assert not optimize(program, kept).artifacts
    assert optimize(program, replace(kept, budget=300.0)).artifacts


def chain(count: int) -> KernelGraph:
    graph = mi.new_kernel_graph("chain")
    x = graph.new_input((16, 32), dtype=mi.float32, name="x")
    for _ in range(count):
        x = graph.tanh(x * 1.01)
    graph.mark_output(x)
    return graph.program().graph


@pytest.mark.parametrize("count", [1, 100])
def test_equal_ops_are_one_kernel_to_compile(count: int) -> None:
    part = of_own_ops(chain(count))
    whole = KernelGraph("whole", part.operands, (part,), part.results)
    assert different_kernels(whole) == 2
    assert kernels_of(decompose(chain(count), stable=True)) == 2
    assert different_kernels(replace(whole, ops=(replace(part, verdicts=()),))) == 0
