"""Plans on devices: new tensors are on the device where the program runs, and are made once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from mirage.runtime.dispatch.plan import Call, ElementType, Launch, Plan
from mirage.runtime.errors import ArgumentAliasError, InterruptedUpdateError
from mirage.runtime.launching.run_plan import Steps
from torch._subclasses.fake_tensor import FakeTensorMode

I64 = ElementType("i64")
OPTIONS = (("layout", None), ("device", None), ("pin_memory", None))


def no_launch(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
    raise AssertionError


def scalar(result: int, number: int) -> Call:
    arguments = (("s", number), ("dtype", I64), *OPTIONS)
    return Call("aten.scalar_tensor.default", (), (result,), arguments)


def expanded(of: int, result: int, *sizes: int) -> Call:
    return Call("aten.expand.default", (of,), (result,), (("size", sizes), ("implicit", False)))


def shifted() -> Plan:
    """A range of positions that begins at an input, and is combined with ranges and constants."""
    add = Call("aten.add.Tensor", (2, 0), (3,), (("alpha", 1),))
    line = Call("aten.arange.default", (), (4,), (("end", 3), ("dtype", I64), *OPTIONS))
    both = Call("aten.add.Tensor", (3, 4), (5,), (("alpha", 1),))
    return Plan(1, (scalar(1, 7), expanded(1, 2, 3), add, line, both), (5, 2, 1))


def test_constants_are_where_the_inputs_are() -> None:
    steps = Steps(shifted())
    with FakeTensorMode():
        x = torch.zeros((), dtype=torch.int64, device="cuda:0")
        found = steps((x,), no_launch)
    assert {str(y.device) for y in found} == {"cuda:0"}


def test_they_are_made_once() -> None:
    made: list[Any] = []
    original = torch.ops.aten.arange.default

    class Counted:
        _schema = original._schema
        tags = original.tags

        def __call__(self, *args: Any, **named: Any) -> Any:
            made.append(named)
            return original(*args, **named)

    steps = Steps(shifted())
    for prepared in steps._prepared.values():
        for call in prepared.constants._calls:
            if call.call.op.startswith("aten.arange"):
                call._function = Counted()
    cpu = steps._prepared[torch.device("cpu")] = steps._prepared[None]
    for start in (1, 2):
        y, line, one = steps((torch.tensor(start),), no_launch)
        assert y.tolist() == [start + 7, start + 8, start + 9]
        line.fill_(100)  # the receiver of a constant may write to it
        one.fill_(100)
    assert len(made) == 1
    assert len(cpu.steps) == 2


def test_what_is_random_or_large_is_no_constant() -> None:
    like = (("dtype", ElementType("f32")), *OPTIONS)
    rand = Call("aten.rand.default", (), (1,), (("size", (4,)), *like))
    large = Call(
        "aten.full.default", (), (2,), (("size", (1024, 1024)), ("fill_value", 1.0), *like)
    )
    steps = Steps(Plan(1, (rand, large), (1, 2)))
    x = torch.zeros(())
    first, second = steps((x,), no_launch), steps((x,), no_launch)
    assert not torch.equal(first[0], second[0])
    assert first[1].data_ptr() != second[1].data_ptr()


def test_kernels_read_constants() -> None:
    def launch(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
        return [given[0] + given[1]]

    plan = Plan(1, (scalar(1, 7), Launch(0, (0, 1), (2,))), (2,))
    (y,) = Steps(plan, torch.device("cpu"))((torch.tensor(1),), launch)
    assert y.item() == 8


def storing(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
    """A part that adds to its second operand and returns twice the first."""
    given[1].add_(given[0])
    return [given[0] * 2]


STORED = Plan(2, (Launch(0, (0, 1), (2, 3), updates=(1,)),), (3, 2), updates=(1,))


def test_parts_update_what_they_are_given() -> None:
    x, cache = torch.ones(4), torch.arange(4.0)
    new, double = Steps(STORED)((x, cache), storing, write=True)
    assert new.data_ptr() == cache.data_ptr()
    assert cache.tolist() == [1, 2, 3, 4]
    assert double.tolist() == [2] * 4
    new, _ = Steps(STORED)((x, cache), storing)
    assert new.tolist() == [2, 3, 4, 5]
    assert cache.tolist() == [1, 2, 3, 4]


def test_what_kernels_cannot_take_as_it_is_is_updated_too() -> None:
    memory = torch.zeros(4, 3)
    x, cache = torch.ones(4), memory[:, 1]
    new, _ = Steps(STORED)((x, cache), storing, write=True)
    assert memory.tolist() == [[0, 1, 0]] * 4
    assert new is cache


def test_a_refused_update_has_not_begun() -> None:
    def refused(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
        raise ArgumentAliasError("no memory of its own")

    def broken(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
        given[1].add_(1)
        raise RuntimeError("half of it")

    args = torch.ones(4), torch.zeros(4)
    with pytest.raises(ArgumentAliasError):
        Steps(STORED)(args, refused, write=True)
    with pytest.raises(InterruptedUpdateError, match="half of it"):
        Steps(STORED)(args, broken, write=True)
    twice = Plan(2, (*STORED.steps, Launch(1, (0, 3), (4, 5), updates=(1,))), (5,), updates=(1,))

    def second_refused(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
        return (refused if part else storing)(part, given, follows)

    with pytest.raises(InterruptedUpdateError, match="no memory of its own"):
        Steps(twice)(args, second_refused, write=True)


def test_a_part_follows_another_only_without_anything_between() -> None:
    """Neither a call, nor a copy of tensors that kernels cannot take or return."""
    seen: list[tuple[int, bool]] = []

    def launch(part: int, given: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
        seen.append((part, follows))
        return [given[0] + 1]

    double = Call("aten.mul.Tensor", (4,), (5,), (("other", 2),))
    parts = [Launch(i, (a,), (b,)) for i, (a, b) in enumerate([(0, 2), (2, 3), (3, 4)])]
    strided, last = Launch(3, (5,), (6,)), Launch(4, (1, 6), (7,))
    plan = Plan(2, (*parts, double, strided, last), (7,))
    Steps(plan)((torch.ones(3), torch.ones(4, 3)[:, 1]), launch)
    assert seen == [(0, False), (1, True), (2, True), (3, False), (4, False)]

    seen.clear()
    again = (Launch(0, (0, 1), (2, 3), updates=(1,)), Launch(1, (2, 3), (4, 5), updates=(1,)))
    twice = Plan(2, again, (5,), updates=(1,))
    Steps(twice)((torch.ones(4), torch.ones(4)), launch, write=True)
    Steps(twice)((torch.ones(4), torch.ones(4, 3)[:, 1]), launch, write=True)
    Steps(twice)((torch.ones(4), torch.ones(4)), launch)  # copies are written to
    assert [follows for _, follows in seen] == [False, True, False, False, False, False]
