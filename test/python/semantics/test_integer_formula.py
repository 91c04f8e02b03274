"""Exact arithmetic on integers: the meaning of steps, compared with PyTorch, and their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from mirage.semantics.integer_formula import Formula, FormulaError, Step, read_step
from mirage.semantics.integer_functions import is_exact
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn

Tensor = torch.Tensor
KINDS = {
    DType.I8: torch.int8,
    DType.I16: torch.int16,
    DType.I32: torch.int32,
    DType.I64: torch.int64,
}


def formula(*lines: str) -> Formula:
    return Formula(tuple(map(read_step, lines)))


def pairs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All pairs of the ends of a type, the numbers around 0, and some others."""
    ends = torch.iinfo(dtype)
    near = [ends.min, ends.min + 1, ends.max, ends.max - 1, *range(-9, 10)]
    some = torch.randint(ends.min, ends.max, (20,), generator=torch.Generator().manual_seed(1))
    line = torch.cat([torch.tensor(near), some]).to(dtype)
    return line[:, None].expand(-1, len(line)).flatten(), line.repeat(len(line))


def divided(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function of two tensors where PyTorch defines it: not for 0, nor for -1, which may
    leave the type."""
    return lambda a, b: function(a, torch.where((b == 0) | (b == -1), 1, b))


TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum,
    "min": torch.minimum, "lt": torch.lt, "le": torch.le, "eq": torch.eq, "ne": torch.ne,
    "and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor,
    "keep": lambda a, b: torch.where(a != 0, b, 0), "bit_and": torch.bitwise_and,
    "bit_or": torch.bitwise_or, "bit_xor": torch.bitwise_xor,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
}  # fmt: skip
ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg, "abs": torch.abs, "square": torch.square, "relu": torch.relu,
    "not": torch.logical_not,
}  # fmt: skip
TRUTHS = ("lt", "le", "eq", "ne", "and", "or", "xor", "not")


def same(actual: Any, expected: Tensor) -> None:
    np.testing.assert_array_equal(actual, expected.to(torch.int64).numpy())


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_are_those_of_pytorch(name: str, dtype: DType) -> None:
    a, b = pairs(KINDS[dtype])
    kind = "i1" if name in TRUTHS else dtype.value
    f = formula("load 0", "load 0", f"{name} 0 1 : {kind}")
    same(f.evaluate([a.numpy(), b.numpy()]), TWO[name](a, b))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_are_those_of_pytorch(name: str, dtype: DType) -> None:
    (a, _), kind = pairs(KINDS[dtype]), "i1" if name in TRUTHS else dtype.value
    same(formula("load 0", f"{name} 0 : {kind}").evaluate([a.numpy()]), ONE[name](a))


@pytest.mark.parametrize("dtype", KINDS)
def test_quotients_are_those_of_pytorch_where_it_has_them(dtype: DType) -> None:
    a, b = pairs(KINDS[dtype])
    for name, function in (("floor_div", torch.floor_divide), ("remainder", torch.remainder)):
        f = formula("load 0", "load 0", f"{name} 0 1 : {dtype.value}")
        found = f.evaluate([a.numpy(), b.numpy()])
        plain = (b != 0) & (b != -1)
        same(found[plain.numpy()], divided(function)(a, b)[plain])
        assert not found[(b == 0).numpy()].any()
        turned = -a if name == "floor_div" else torch.zeros_like(a)
        same(found[(b == -1).numpy()], turned[b == -1])


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("given", KINDS)
def test_conversions_wrap_around(given: DType, to: DType) -> None:
    a, _ = pairs(KINDS[given])
    same(formula("load 0", f"cast 0 : {to.value}").evaluate([a.numpy()]), a.to(KINDS[to]))


def test_floats_are_truncated() -> None:
    x = torch.tensor([-2.5, -0.5, 0.0, 1.99, 2.0**40, -(2.0**60), 100.7])
    same(formula("load 0", "cast 0 : i64").evaluate([x.numpy()]), x.to(torch.int64))
    beyond = np.array([np.inf, 2.0**63, -np.inf, np.nan])
    ends = np.iinfo(np.int64)
    found = formula("load 0", "cast 0 : i64").evaluate([beyond])
    assert found.tolist() == [ends.max, ends.max, ends.min, 0]


def test_every_function_has_a_meaning_or_none_for_integers() -> None:
    exact = {fn.value for fn in (*UnaryFn, *BinaryFn) if is_exact(fn)}
    bits = {name for name in TWO if "_" in name and name[0] in "bs"}
    assert exact == (set(TWO) | set(ONE) | {"floor_div", "remainder"}) - bits


def test_constants_wrap_around() -> None:
    f = formula("load 0", "constant 300 : i8", "add 0 1 : i64")
    assert f.evaluate([np.array([1])]).tolist() == [45]


def test_text() -> None:
    lines = ("load 0 -1 2", "constant -5 : i8", "shift_left 0 1 : i8", "cast 2 : bf16")
    assert [str(step) for step in formula(*lines).steps] == list(lines)
    for wrong in ("add x", "add 0 1 : f7"):
        with pytest.raises(FormulaError, match="expected a step"):
            read_step(wrong)
    assert (
        formula("load 0", "load 1", "add 0 1 : i64", "le 2 1 : i1").written("ab")
        == "((a + b) <= b)"
    )


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("add 0 0 : i64",), "expected 1 loads first, got 0"),
        (("load 0 1", "neg 0 : i64"), "step 0: expected each dimension"),
        (("load 1", "neg 0 : i64"), "step 0: expected each dimension"),
        (("load 0", "add 0 : i64"), "step 1: expected a function of integers"),
        (("load 0", "exp 0 : i64"), "step 1: expected a function of integers"),
        (("load 0", "neg 1 : i64"), "step 1: expected numbers of earlier steps"),
        (("load 0", "neg 0 : f32"), "step 1: expected integers as a result"),
        (("load 0", "cast 0 : f32", "neg 1 : i64"), "step 2: expected integers, got f32"),
        (("load 0", "cast 0 : f32", "cast 1 : i64"), "step 2: expected integers, got f32"),
    ],
)
def test_what_is_no_formula(lines: Sequence[str], why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        formula(*lines).check([((4,), DType.I64)], (4, 5))


def test_floats_are_only_converted() -> None:
    given = [((4,), DType.F32)]
    formula("load 0", "cast 0 : i8", "neg 1 : i8").check(given, (4,))
    with pytest.raises(FormulaError, match="expected integers, got f32"):
        formula("load 0", "neg 0 : i64").check(given, (4,))


def test_positions_take_the_place_of_loads() -> None:
    f = formula("load 0", "load 1", "load 0 1", "add 0 2 : i64", "le 1 3 : i1")
    inside = f.with_positions({0})
    lines = ["load 1", "load 0 1", "position 0 : i64", "add 2 1 : i64", "le 0 3 : i1"]
    assert [str(step) for step in inside.steps] == lines
    outside, along = inside.with_loads()
    assert along == (0,)
    assert outside.loads == ((1,), (0, 1), (0,))
    a, b, c = (np.arange(3)[:, None], np.arange(4), np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(f.evaluate([a, b, c]), outside.evaluate([b, c, a]))
    np.testing.assert_array_equal(inside.evaluate([b, c], (3, 4)), f.evaluate([a, b, c]))
    with pytest.raises(FormulaError, match="a result with dimension 0"):
        inside.evaluate([b, c])


PICKED = (
    "table 2", "load 0", "position 1 : i64", "constant 3 : i64", "sub 2 3 : i64", "pick 0 1 4 : i32"
)  # fmt: skip


def test_elements_of_tables() -> None:
    """Elements at an index outside are 0."""
    table, rows = np.arange(1, 11).reshape(2, 5), np.array([[1], [-1], [2], [0]])
    found = formula(*PICKED).evaluate([table, rows], (4, 9))
    expected = np.zeros((4, 9), np.int64)
    expected[0, 3:8], expected[3, 3:8] = table[1], table[0]
    np.testing.assert_array_equal(found, expected)
    formula(*PICKED).check([((2, 5), DType.I32), ((4,), DType.I64)], (4, 9))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("table 2", "pick 0 : i32"), "an index for each"),
        (("table 1", "load 0", "pick 1 0 : i32"), "a table and an index"),
        (("table 1", "load 0", "pick 0 0 : i32"), "indices that are integers"),
        (("table 1", "load 0", "pick 0 1 : i64"), "elements of i32"),
        (("table 1", "load 0", "add 0 1 : i32"), "expected no table"),
    ],
)
def test_wrong_tables(lines: tuple[str, ...], message: str) -> None:
    sizes = (3, 3) if lines[0] == "table 2" else (3,)
    operands = [(sizes, DType.I32), ((4,), DType.I32)][: 2 if "load 0" in lines else 1]
    with pytest.raises(FormulaError, match=message):
        formula(*lines).check(operands, (4,))


def test_steps_that_are_computed_are_counted() -> None:
    f = formula("load 0", "constant 2 : i64", "mul 0 1 : i64", "neg 2 : i64")
    assert (f.work, f.dtype) == (2, DType.I64)
    assert Step("load", (0,)).reads == ()
