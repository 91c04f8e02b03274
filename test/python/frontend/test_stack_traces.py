"""The calls that lead to an op are those that PyTorch records by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from mirage.frontend.torch_import.capture import decompositions, exporting
from mirage.frontend.torch_import.capture.stack_traces import calls_of_models
from torch import nn
from torch.fx import proxy


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(
            x.sin(),
        ).softmax(-1)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.linear = Inner(), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.linear(x)) + torch.linalg.inv(x[0] @ x[0].T).sum()


def of_a_function(x: torch.Tensor) -> torch.Tensor:
    return [nn.functional.layer_norm(x, (8,)) for _ in range(2)][-1]


def traces(program: Callable[..., object]) -> list[object]:
    """The stack traces in the captured graph, and in the graph of its decompositions."""
    exported = exporting.export_program(program, (torch.randn(2, 4, 8),))
    found = [node.meta.get("stack_trace") for node in exported.graph.nodes]
    exported = decompositions.decomposed(exported, in_place=False)
    return [*found, *(node.meta.get("stack_trace") for node in exported.graph.nodes)]


@pytest.mark.parametrize("program", [Outer().eval(), nn.GRUCell(8, 8).eval(), of_a_function])
def test_the_same_as_pytorchs(
    program: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(program, nn.GRUCell):
        cell = program
        program = lambda x: cell(x[0])  # noqa: E731
    ours = traces(program)
    for module in (exporting, decompositions):
        monkeypatch.setattr(module, calls_of_models.__name__, nullcontext)
    assert ours == traces(program)
    assert any(__file__ in str(trace) for trace in ours)


def test_pytorch_is_as_before_afterwards() -> None:
    before = proxy.CapturedTraceback
    with calls_of_models():
        assert proxy.CapturedTraceback is not before
    assert proxy.CapturedTraceback is before
