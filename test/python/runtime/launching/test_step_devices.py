"""A plan's calls on devices other than the CPU: new tensors of calls are where the inputs are."""

from __future__ import annotations

import pytest
import torch
from mirage.runtime.dispatch.plan import Argument, Call, Device, ElementType, Plan
from mirage.runtime.launching.run_plan import Steps

OPTIONS: tuple[tuple[str, Argument], ...] = (
    ("dtype", ElementType("f32")), ("layout", None), ("device", None), ("pin_memory", None),
)  # fmt: skip


def nothing(part: int, given: list[torch.Tensor]) -> list[torch.Tensor]:
    raise AssertionError("there is no compiled part")


PLANS = {
    "positions": Call("aten.arange.default", (), (1,), (("end", 4), *OPTIONS)),
    "a number": Call("aten.scalar_tensor.default", (), (1,), (("s", 2.0), *OPTIONS)),
    "numbers": Call(
        "aten.full.default", (), (1,), (("size", (4,)), ("fill_value", 2.0), *OPTIONS)
    ),
    "on the program's device": Call(
        "aten.arange.default", (), (1,),
        (("end", 4), *(o for o in OPTIONS if o[0] != "device"), ("device", Device())),
    ),
}  # fmt: skip


def plan_with(made: Call) -> Plan:
    """``x + made.expand(3, 4)``, and the new tensor."""
    wide = Call("aten.expand.default", (1,), (2,), (("size", (3, 4)), ("implicit", False)))
    added = Call("aten.add.Tensor", (0, 2), (3,), (("alpha", 1),))
    return Plan(1, (made, wide, added), (3, 1))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("known", [False, True])
def test_constants_of_calls_are_where_the_inputs_are(name: str, known: bool) -> None:
    """On a device that is not a CPU: tensors of both cannot be combined there, either."""
    device = torch.device("meta")
    steps = Steps(plan_with(PLANS[name]), device if known else None)
    y, made = steps([torch.empty(3, 4, device=device)], nothing)
    assert y.device == made.device == device


@pytest.mark.parametrize("name", PLANS)
def test_on_the_cpu_they_are_there(name: str) -> None:
    steps = Steps(plan_with(PLANS[name]))
    x = torch.zeros(3, 4)
    y, made = steps([x], nothing)
    assert y.device == made.device == x.device
    torch.testing.assert_close(y, made.expand(3, 4))


def test_a_number_on_the_cpu_among_inputs_says_nothing() -> None:
    device = torch.device("meta")
    moved = Call("aten.add.Tensor", (2, 1), (3,), (("alpha", 1),))
    made = Call("aten.arange.default", (), (2,), (("end", 4), *OPTIONS))
    steps = Steps(Plan(2, (made, moved), (3,)))
    (y,) = steps([torch.tensor(2.0), torch.empty(4, device=device)], nothing)
    assert y.device == device


def test_a_program_without_inputs_is_on_the_device_that_was_given() -> None:
    made = Call("aten.arange.default", (), (0,), (("end", 4), *OPTIONS))
    for device in ("meta", "cpu"):
        (y,) = Steps(Plan(0, (made,), (0,)), torch.device(device))([], nothing)
        assert y.device.type == device
