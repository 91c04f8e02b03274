"""Calls that compute bits, read as arithmetic: the numbers are those of the calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import External, KernelGraph, Op, TensorType, Value
from mirage.verify.normal_form.bit_calls import has_bit_calls, without_bit_calls

LINE = TensorType((33,), DType.I32)
NUMBERS = np.array(
    [*range(-20, 21, 2), 7, 255, -255, 4096, 2**30 + 5, -(2**30), 2**31 - 1, -(2**31), 99, 1, -1, 3]
)
FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def with_number(x: Value, name: str, number: int) -> Op:
    target = f"aten.bitwise_{name}.Scalar"
    return External((x,), (Value(LINE),), target, (("other", number),))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_with_a_number_is_arithmetic(name: str) -> None:
    x, ops = Value(LINE), list[Op]()
    constants = (0, 1, 5, 12, 240, 0x3FFFFFFF, -1, -2, -16, -101)
    for number in constants:
        ops.append(with_number(x, name, number))
    read = without_bit_calls(KernelGraph("bits", (x,), tuple(ops), tuple(o.result for o in ops)))
    assert not has_bit_calls(read)
    numbers = NUMBERS[: LINE.size]
    found = evaluate_floats(read, [numbers.astype(np.float64)])
    for number, result in zip(constants, found, strict=True):
        assert result.tolist() == [FUNCTIONS[name](int(n), number) for n in numbers], number


def test_numbers_without_a_bit_in_common_are_added() -> None:
    x, y = Value(LINE), Value(LINE)
    low, high = with_number(x, "and", 15), with_number(y, "and", 240)
    both = External((low.result, high.result), (Value(LINE),), "aten.bitwise_or.Tensor")
    graph = KernelGraph("bits", (x, y), (low, high, both), both.results)
    read = without_bit_calls(graph)
    assert not has_bit_calls(read)
    assert read.ops[-1].function is BinaryFn.ADD


def test_a_bit_in_common_leaves_a_conjunction() -> None:
    x, y = Value(LINE), Value(LINE)
    low, high = with_number(x, "and", 31), with_number(y, "and", 240)
    both = External((low.result, high.result), (Value(LINE),), "aten.bitwise_or.Tensor")
    graph = KernelGraph("bits", (x, y), (low, high, both), both.results)
    assert has_bit_calls(without_bit_calls(graph))
