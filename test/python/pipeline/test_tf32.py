"""Products in TF32, if PyTorch's settings allow it for f32: from module to kernel."""

from __future__ import annotations

from collections.abc import Iterator

import mirage
import numpy as np
import pytest
import torch
from mirage.emulator.run_artifact import run_artifact
from mirage.frontend.kernel_graph import new_kernel_graph
from mirage.frontend.torch_import.conversion.from_torch import from_torch
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import KernelGraph, Launch, Matmul, Op, Structure
from mirage.verify import VerifyOptions, verify
from thorough import some_of


class Layer(torch.nn.Module):
    """A gated product: a function of one product is a factor of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def high() -> Iterator[None]:
    """PyTorch's setting for the test."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def products(graph: KernelGraph) -> list[bool]:
    """Return for each product, including those in kernels, whether it rounds its factors."""
    found: list[bool] = []
    for op in graph.ops:
        inside: list[Op] = [op]
        while inside:
            one = inside.pop()
            inside.extend(one.inside if isinstance(one, Structure) else ())
            if isinstance(one, Matmul):
                found.append(one.tf32)
    return found


def test_the_setting_is_part_of_the_program(high: None) -> None:
    x = torch.randn(128, 64)
    assert products(from_torch(Layer(), x).program.graph) == [True, True]
    torch.set_float32_matmul_precision("highest")
    assert products(from_torch(Layer(), x).program.graph) == [False, False]
    torch.set_float32_matmul_precision("medium")
    assert products(from_torch(Layer(), x).program.graph) == [True, True]
    assert products(from_torch(Layer().half(), x.half()).program.graph) == [False, False]


@pytest.mark.parametrize("chip", some_of(["sm_80", "sm_90a"], every=2))
def test_kernels_round_the_factors(high: None, chip: str) -> None:
    torch.manual_seed(0)
    layer = Layer()
    options = OptimizeOptions(
        chip=chip, budget=20.0, candidates=2, finalists=1, jobs=1, verify_seed=1, use_cache=False
    )
    program = from_torch(layer, torch.randn(128, 64)).program
    found = optimize(program, options)
    assert not found.report.notes
    assert set(products(found.graph)) == {True}
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    held = {p.index: torch.as_tensor(p.data).detach().numpy() for p in program.parameters}
    x = torch.randn(128, 64).numpy()
    arrays = [held.get(i, x) for i in range(len(program.graph.inputs))]
    (exact,) = evaluate_floats(found.graph, arrays)
    (rounded,) = evaluate_floats(found.graph, arrays, TypedFloat())
    (ours,) = run_artifact(found.artifact, arrays, checks=False).outputs
    size = np.abs(exact).max()
    assert np.abs(ours - exact).max() < 4.0 * np.abs(rounded - exact).max()
    assert np.abs(rounded - exact).max() > 2.0**-16 * size


def _graph(*, tf32: bool) -> KernelGraph:
    graph = new_kernel_graph()
    x, w = (graph.new_input((64, 64), "f32") for _ in "xw")
    graph.mark_output(graph.matmul(x, w, tf32=tf32))
    return graph.build()


def test_rounding_that_nobody_asked_for_is_refused() -> None:
    wide, narrow = _graph(tf32=False), _graph(tf32=True)
    options = VerifyOptions(seed=3)
    assert not verify(wide, narrow, options).accepted
    assert verify(wide, narrow, options).equivalent
    assert verify(narrow, wide, options).accepted
    assert verify(narrow, narrow, options).accepted


def test_halves_are_not_rounded() -> None:
    graph = new_kernel_graph()
    x = graph.new_input((64, 64), "f16")
    with pytest.raises(mirage.MirageError, match="expected factors of f32 to be rounded to TF32"):
        graph.matmul(x, x, tf32=True)
