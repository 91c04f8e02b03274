"""Programs of many parts, most of them equal, and other large or meaningless input."""

from __future__ import annotations

import time
from dataclasses import replace

import mirage as mi
import pytest
import torch
from mirage.cost import CostReport, Target
from mirage.cost.predict import predict
from mirage.pipeline import select as select_module
from mirage.pipeline.checks.check import Checker
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.semantics.alternatives import Alternatives, applied_to
from mirage.semantics.ugraph import KernelGraph
from torch import nn

OPTIONS = mi.OptimizeOptions(
    candidates=1, finalists=1, verify_seed=1, jobs=1, budget=300.0, use_cache=False, cubin=False
)
LAYERS = 12


class Block(nn.Module):
    """A layer; between two layers an op stays with PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.i0e(x + torch.relu(self.linear(self.norm(x))))


def stacked(count: int) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(3)
    return nn.Sequential(*(Block() for _ in range(count))).eval(), torch.randn(16, 32)


def test_equal_parts_are_written_once_for_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that is not requested is not written for each of them."""
    module, x = stacked(LAYERS)
    imported = mi.from_torch(module, x, allow_fallback=True)
    places: list[int] = []

    def noted(op: Alternatives, graph: KernelGraph) -> Alternatives:
        places.append(len(op.programs))
        return applied_to(op, graph)

    monkeypatch.setattr(parts_module, "applied_to", noted)
    found = optimize(imported.program, replace(OPTIONS, compile=False))
    assert len({c.part for c in found.verdicts}) == 1
    assert len(places) == LAYERS - 1
    assert found.mlir["candidates"].count("kernel.alternatives") == LAYERS
    assert len(places) == 2 * (LAYERS - 1)
    assert found.mlir["candidates"]
    assert len(places) == 2 * (LAYERS - 1)


def test_equal_parts_are_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any number of places."""
    looked: list[int] = []

    def counted(program: KernelGraph, target: Target) -> CostReport | None:
        looked[-1] += 1
        return predict(program, target)

    monkeypatch.setattr(select_module, "predict", counted)
    for count in (2, LAYERS):
        looked.append(0)
        module, x = stacked(count)
        imported = mi.from_torch(module, x, allow_fallback=True)
        optimize(imported.program, replace(OPTIONS, compile=False))
    assert looked[0] == looked[1]


def test_many_equal_parts_compute_what_the_program_does() -> None:
    module, x = stacked(3)
    found = optimize(mi.from_torch(module, x, allow_fallback=True).program, OPTIONS)
    (actual,) = emulate(found, x)
    torch.testing.assert_close(actual, module(x), rtol=1e-4, atol=1e-4)


def test_kernels_for_which_there_is_no_time_are_left_unchecked() -> None:
    """None of them costs more than it takes to report it."""
    graph = mi.new_kernel_graph("chain")
    x = graph.new_input((16, 64), dtype=mi.float16, name="x")
    y = x
    for _ in range(2):
        y = graph.softmax(y @ graph.transpose(x, 1, 0), 1) @ x
    graph.mark_output(y)
    found = optimize(graph.program(), replace(OPTIONS, check_kernels=False))
    checker = Checker(graph.program(), OPTIONS.chip, False, Deadline(0.0))
    (finalist,) = found.finalists[:1]
    checks = checker.check(finalist).checks
    assert checks
    assert {c.outcome for c in checks if c.how == "in the emulator"} == {Outcome.UNCHECKED}


def test_a_long_chain_ends_in_its_time() -> None:
    count = 300

    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.tanh(x * 1.01 + y)
        return x

    x, y = torch.randn(16, 32), torch.randn(16, 32)
    imported = mi.from_torch(chain, x, y)
    assert len(imported.graph.ops) >= 3 * count
    start = time.process_time()
    found = optimize(imported.program, replace(OPTIONS, budget=10.0, compile=False))
    assert time.process_time() - start < 60.0
    assert found.graph.ops


@pytest.mark.parametrize("budget", [0.2, 2.0])
def test_many_layers_end_in_little_time(budget: float) -> None:
    """Different parts, so that none has the solution of another; parts without time are correct."""

    def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for k in range(2, LAYERS + 2):
            x = torch.special.i0e(torch.softmax(x @ w[:, : 2 * k], 1) @ w[: 2 * k] + x)
        return x

    x, w = torch.randn(16, 32) * 0.1, torch.randn(32, 32) * 0.1
    imported = mi.from_torch(layers, x, w, allow_fallback=True)
    start = time.process_time()
    found = optimize(imported.program, replace(OPTIONS, budget=budget))
    assert time.process_time() - start < 60.0
    (actual,) = emulate(found, x, w)
    torch.testing.assert_close(actual, layers(x, w), rtol=1e-3, atol=1e-3)


NAN = {
    "a constant": lambda x: torch.relu(x * float("nan")) + x,
    "a filled tensor": lambda x: x + torch.full_like(x, float("nan")),
}


@pytest.mark.parametrize("name", NAN)
def test_a_constant_that_is_no_number_is_left_to_pytorch(name: str) -> None:
    x = torch.randn(16, 32)
    with pytest.raises(mi.MirageError, match="not a number") as raised:
        mi.from_torch(NAN[name], x)
    assert "\n" not in str(raised.value)
    found = optimize(mi.from_torch(NAN[name], x, allow_fallback=True).program, OPTIONS)
    (actual,) = emulate(found, x)
    assert actual.isnan().all()


NO_NUMBERS = {
    "of infinities": lambda x: x / 0.0 - x / 0.0,
    "of a root": lambda x: torch.sqrt(-torch.relu(x) - 1.0) @ x.T,
    "of rows without an element": lambda x: torch.softmax(
        x.masked_fill(torch.ones_like(x, dtype=torch.bool), float("-inf")), -1
    ),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_values_that_are_no_numbers_have_a_result(name: str) -> None:
    """The program has other values as well: a program without any would be an error."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return NO_NUMBERS[name](x), x * 2

    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    found = optimize(mi.from_torch(program, x).program, replace(OPTIONS, budget=60.0))
    actual, twice = emulate(found, x)
    assert actual.isnan().all()
    torch.testing.assert_close(twice, x * 2)
