"""Example inputs by keyword and as a dictionary by the names of parameters."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import mirage
import numpy as np
import pytest
import torch
from mirage.frontend.errors import GraphTypeError
from mirage.frontend.program import SizedProgram
from mirage.frontend.torch_import import given_arguments
from mirage.semantics.evaluation.evaluate import evaluate_floats

X, Y = torch.full((4, 8), 7.0), torch.full((4, 8), 5.0)


class Model(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, *, name: Any = None, y: Any = 1.0
    ) -> torch.Tensor:
        return x - 2 * y if name is None else x - 2 * y + name


def function(x: torch.Tensor, scale: float, y: torch.Tensor, *, z: Any = None) -> torch.Tensor:
    return x * scale - 2 * y if z is None else z


def computed(program: Any, *inputs: torch.Tensor) -> Any:
    (y,) = evaluate_floats(program.graph, [x.numpy() for x in inputs])
    return y


@pytest.mark.parametrize(
    "imported",
    [
        lambda: mirage.from_torch(Model(), X, y=Y),
        lambda: mirage.from_torch(Model(), y=Y, x=X),
        lambda: mirage.from_torch(Model(), {"y": Y, "x": X}),
        lambda: mirage.from_torch(Model(), {"y": Y, "mask": None, "x": X}),
        lambda: mirage.from_torch(function, X, 1.0, y=Y),
        lambda: mirage.from_torch(function, {"y": Y, "scale": 1.0, "x": X}),
    ],
)
def test_inputs_are_in_the_order_of_parameters(imported: Any) -> None:
    program = imported()
    assert [v.name for v in program.graph.inputs] == ["x", "y"]
    assert np.array_equal(computed(program, X, Y), X - 2 * Y)


def test_a_name_that_is_an_option_too() -> None:
    program = mirage.from_torch(Model(), {"x": X, "name": Y, "y": 3.0}, name="model")
    assert program.graph.name == "model"
    assert [v.name for v in program.graph.inputs] == ["x", "name"]


def test_a_model_that_takes_a_dictionary() -> None:
    def model(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["x"] + batch["y"]

    for program in (
        mirage.from_torch(model, {"x": X, "y": Y}),
        mirage.from_torch(model, batch={"x": X, "y": Y}),
    ):
        assert np.array_equal(computed(program, X, Y), (X + Y).numpy())


def test_sizes_of_named_inputs() -> None:
    rows = torch.export.Dim("rows", min=1, max=16)
    shapes = {"x": {0: rows}, "y": {0: rows}}
    for imported in (
        partial(mirage.from_torch, Model(), X, y=Y),
        partial(mirage.from_torch, Model(), {"y": Y, "x": X}),
    ):
        program = imported(dynamic_shapes=shapes)
        assert isinstance(program, SizedProgram)
        assert (program.at_least, program.at_most, len(program.inputs)) == (1, 16, 2)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"w": Y}, "expected example inputs by the names of parameters (x, mask, name, y), got w"),
        ({"x": Y}, "multiple values for argument 'x'"),
    ],
)
def test_names_that_do_not_fit(named: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphTypeError, match=re.escape(message)) as caught:
        mirage.from_torch(Model(), X, **named)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_an_exported_program_has_its_inputs() -> None:
    exported = torch.export.export(Model(), (X,))
    with pytest.raises(GraphTypeError, match="ExportedProgram, which has its own, got x"):
        mirage.from_torch(exported, x=X)


def test_what_has_no_signature_is_called_by_position() -> None:
    assert given_arguments(torch.exp, [X], {}) == ((X,), {})
    assert given_arguments(lambda x, **more: x, [X], {"y": 1}) == ((X,), {"y": 1})
