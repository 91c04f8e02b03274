"""Errors in captured programs."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
from mirage.frontend.errors import GraphTypeError, ImportFailedError
from mirage.frontend.torch_import.capture.module_call import ModuleCall

X = torch.ones(2, 4)


def test_inputs_as_one_tuple() -> None:
    expected = r"one by one \(model, x, y\), got one tuple of 2 tensors; pass \*inputs"
    with pytest.raises(GraphTypeError, match=expected):
        mi.from_torch(lambda x, y: x + y, (X, X))
    with pytest.raises(GraphTypeError, match="got one list of 1 tensor;"):
        mi.from_torch(torch.nn.Linear(4, 4), [X])


def test_a_tuple_that_is_an_input() -> None:
    mi.from_torch(lambda pair: pair[0] + pair[1], (X, X))
    with pytest.raises(ImportFailedError, match="could not capture"):
        mi.from_torch(lambda pair: pair[0] @ pair[1], (X, X))


def test_a_parameter_that_is_named_as_a_function_of_python() -> None:
    """A copy of the graph has another name for it."""
    module, x = torch.nn.Linear(4, 3).requires_grad_(False), torch.randn(2, 4)
    exported = torch.export.export(module, (x,))
    program = mi.from_torch(exported, x).program
    assert [v.shape for v in program.call_inputs] == [(2, 4)]
    assert [name for name, _ in ModuleCall(exported).arguments] == ["input"]
