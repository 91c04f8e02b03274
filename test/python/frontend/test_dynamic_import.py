"""Import of programs with a dynamic outermost dimension: the imported program, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
from mirage.frontend.errors import DynamicShapeError, ImportFailedError
from torch.export import Dim

BATCH = Dim("batch", min=2, max=50)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.linear(x).view(x.shape[0], 2, 2).flatten(1) + y


@pytest.mark.parametrize(
    "shapes", [{"x": {0: BATCH}, "y": {0: BATCH}}, ({0: BATCH}, {0: BATCH}), [(BATCH, None)] * 2]
)
def test_a_module(shapes: Any) -> None:
    sizes = mi.from_torch(Layer(), torch.zeros(9, 8), torch.zeros(9, 4), dynamic_shapes=shapes)
    assert (sizes.name, sizes.at_least, sizes.at_most, sizes.inputs) == ("batch", 2, 50, (0, 1))
    assert [v.shape for v in sizes.program.graph.inputs[:2]] == [(50, 8), (50, 4)]
    assert [v.shape for v in sizes.at(17).graph.inputs] == [(17, 8), (17, 4), (4, 8), (4,)]
    assert [p.name for p in sizes.program.parameters] == ["linear.weight", "linear.bias"]


def refused(function: Callable[..., object], shapes: Any = None) -> str:
    given = {"x": {0: BATCH}} if shapes is None else shapes
    try:
        mi.from_torch(function, torch.zeros(9, 8), dynamic_shapes=given).at(16)
    except (DynamicShapeError, ImportFailedError) as error:
        return str(error)
    raise AssertionError("expected an error, got a program")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x / x.shape[0], "aten.div.Tensor computes with it"),
        (lambda x: x * torch.ones(x.shape[0], 8).cumsum(1).sum(0), "aten.cumsum.default computes"),
        (lambda x: x * (torch.arange(x.shape[0]) == 7).sum(), "aten.sum.default computes with it"),
        (lambda x: x * torch.ones(x.shape[0]).sum(), "aten.sum.default computes with it"),
        (lambda x: (x * 2, x.shape[0]), "results"),
        (lambda x: x + 1 if x.shape[0] > 8 else x, "Constraints violated"),
        (lambda x: x - x.mean(0), "at 49 there is another constant"),
        (lambda x: x.view(2, -1, 8), ""),
        (lambda x: x[: x.shape[0] // 2], "Constraints violated"),
    ],
)
def test_programs_that_depend_on_the_size(function: Callable[..., object], message: str) -> None:
    assert message in refused(function)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": {0: BATCH}}, "expected names among x, got 'z'"),
        ({"x": {1: BATCH}}, "take them as one dimension (x.flatten(0, 1), whose size"),
        ({"x": {0: Dim("n")}}, "give the dimension a largest size"),
        ({"x": None}, "expected one dynamic size"),
        (3, "expected a dict by names of inputs, or one entry for each of 1, got 3"),
    ],
)
def test_declarations(shapes: Any, message: str) -> None:
    assert message in refused(lambda x: x * 2, shapes)


def test_two_sizes_are_refused() -> None:
    with pytest.raises(DynamicShapeError, match="expected one dynamic size"):
        mi.from_torch(
            lambda x, y: (x * 2, y * 2), torch.zeros(9, 8), torch.zeros(7, 8),
            dynamic_shapes=({0: Dim("a", max=50)}, {0: Dim("b", max=50)}),
        )  # fmt: skip
