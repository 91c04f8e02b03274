"""The representation of a call of PyTorch in the artifact of a whole model."""

from __future__ import annotations

import pytest
from mirage.pipeline.whole_model import IncompleteModelError, check_calls
from mirage.runtime.dispatch.plan import Call, Device, ElementType, Plan, Rows, Tensors


def plan_with(argument: object) -> Plan:
    call = Call("aten.full.default", (0,), (1,), (("fill", argument),))  # pyright: ignore
    return Plan(1, (call,), (1,))


@pytest.mark.parametrize(
    "argument",
    [
        None,
        True,
        3,
        0.5,
        "floor",
        (1, Rows(3)),
        Rows(2),
        Tensors((True,)),
        ElementType("f32"),
        Device(),
    ],
)
def test_arguments_that_can_be_written(argument: object) -> None:
    check_calls(plan_with(argument))


@pytest.mark.parametrize("argument", [1j, [1, 2], (1, object), Plan(0, (), ())])
def test_arguments_that_cannot(argument: object) -> None:
    with pytest.raises(IncompleteModelError, match=r"argument 'fill' of aten\.full\.default"):
        check_calls(plan_with(argument))
