"""torch.compile(backend="mirage"), with the chosen µGraphs interpreted, since there is no GPU."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import External, Launch
from mirage.torch.compiled_graph import StaysEager
from mirage.torch.graph_compiler import backend
from mirage.torch.graph_inputs import check_inputs

chosen: list[Any] = []


def interpret(program: Program, options: Mapping[str, Any]) -> Any:
    """Searches and verifies as on a GPU, then interprets the chosen µGraphs."""
    optimized = optimize(
        program, OptimizeOptions.of(compile=False, candidates=2, jobs=1, **options)
    )
    chosen.append(optimized.graph)
    types = {"f16": torch.float16, "f32": torch.float32}

    def call(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        arrays = [t.to(torch.float32).numpy() for t in tensors]
        outputs = evaluate_floats(optimized.graph, arrays, TypedFloat())
        return [
            torch.from_numpy(y).to(types[v.dtype.value])
            for y, v in zip(outputs, optimized.graph.outputs, strict=True)
        ]

    return call


host = partial(backend, compiler=interpret, devices=("cpu",))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(64, dtype=torch.float16)
        self.proj = torch.nn.Linear(64, 32, bias=False, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(self.proj(self.norm(x)))


def test_module_becomes_kernels() -> None:
    torch.manual_seed(0)
    net, x = Net().requires_grad_(False), torch.randn(16, 64).half()
    chosen.clear()
    y = torch.compile(net, backend=host)(x)
    torch.testing.assert_close(y, net(x), atol=2e-3, rtol=2e-3)
    (graph,) = chosen
    assert all(isinstance(op, Launch) for op in graph.ops)


def test_weights_are_arguments_and_may_change() -> None:
    torch.manual_seed(0)
    net, x = Net().requires_grad_(False), torch.randn(16, 64).half()
    compiled = torch.compile(net, backend=host)
    compiled(x)
    net.proj.weight.mul_(2.0)
    torch.testing.assert_close(compiled(x), net(x), atol=4e-3, rtol=4e-3)


def test_unknown_ops_stay_calls_of_torch() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.special.i0e(x @ w) * 2.0

    seen: list[Program] = []

    def remember(program: Program, options: Mapping[str, Any]) -> Any:
        seen.append(program)
        raise StaysEager("only looking")

    x, w = torch.randn(16, 64), torch.randn(64, 32)
    torch.compile(function, backend=partial(backend, compiler=remember, devices=("cpu",)))(x, w)
    assert sum(isinstance(op, External) for op in seen[0].graph.ops) == 1
    assert len(seen[0].graph.ops) > 1


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([3.0], "not a tensor"),
        ([torch.zeros(2, device="cpu")], "is on cpu, expected cuda"),
        ([torch.zeros(2, device="meta")], "is on meta"),
    ],
)
def test_reasons_to_stay_eager(inputs: list[Any], reason: str) -> None:
    with pytest.raises(StaysEager, match=reason):
        check_inputs(inputs)


def test_gradients_stay_eager(caplog: pytest.LogCaptureFixture) -> None:
    net, x = Net(), torch.randn(16, 64).half()
    with caplog.at_level(logging.WARNING, "mirage.torch"):
        y = torch.compile(net, backend=host)(x)
    assert "requires a gradient" in caplog.text
    y.sum().backward()
    assert net.proj.weight.grad is not None
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(net, backend=host)(x), y, atol=2e-3, rtol=2e-3)


def test_gradients_within_a_graph_stay_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad((x * x).sum(), x)
        return gradient * 2

    x = torch.randn(16, 64, requires_grad=True)
    with torch.no_grad():  # TorchDynamo ends the first graph inside of the region
        torch.testing.assert_close(torch.compile(function, backend=host)(x), x * 4)


def test_backend_is_registered(caplog: pytest.LogCaptureFixture) -> None:
    assert mirage.torch.backend is backend
    assert "mirage" in torch._dynamo.list_backends(exclude_tags=())  # pyright: ignore
    x = torch.randn(4, 4)
    with caplog.at_level(logging.WARNING, "mirage.torch"):
        y = torch.compile(lambda t: t * 2, backend="mirage")(x)
    torch.testing.assert_close(y, x * 2)
    assert "is on cpu" in caplog.text


def test_explain_says_why_a_model_is_more_than_one_graph() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    found = mirage.torch.explain(model, torch.ones(4, 8), compiler=interpret, devices=("cpu",))
    assert len(found.graphs) == 2
    (line,) = (x for x in str(found).splitlines() if x.startswith("between graphs: "))
    assert "ata-dependent branching" in line
    whole = mirage.torch.explain(torch.exp, torch.ones(4, 8), compiler=interpret, devices=("cpu",))
    assert whole.breaks == ()
