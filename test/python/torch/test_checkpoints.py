"""Regions of torch.utils.checkpoint are compiled if no gradients are needed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from torch.utils.checkpoint import checkpoint
from torch_programs.op_by_op import op_by_op


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def parts(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.first(x)), x * y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = checkpoint(self.second, x, use_reentrant=False)
        assert isinstance(y, torch.Tensor)
        parts: Any = checkpoint(self.parts, x, y, use_reentrant=False)
        return parts[0] - parts[1] + y


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


def test_a_region_is_part_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    model = Model()
    compiled = torch.compile(model, backend=host)
    for rows in (4, 5):
        x = torch.randn(rows, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
    assert all(report.compiled is not None for report in reports)
    assert "PyTorch" not in caplog.text


def test_gradients_are_those_of_pytorch() -> None:
    host = partial(backend, compiler=op_by_op, devices=("cpu",))
    model, x = Model(), torch.randn(4, 8)
    torch.compile(model, backend=host)(x).sum().backward()
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])
