"""Constants as the numbers from which they were computed."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Constant, KernelGraph, TensorType, Value
from mirage.verify.normal_form.constants import read_alike, with_functions_read
from mirage.verify.normal_form.simple_constants import simple_number


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1 - 0.9, Fraction(1, 10)),
        (1e-5 / 6.25, Fraction(16, 10**7)),
        (1 - 0.999**3, Fraction(2997001, 10**9)),
        (-(0.1 + 0.2), Fraction(-3, 10)),
        (0.25, None),
        (1 / 3, None),
        (128**-0.5, None),
        (math.pi, None),
        (math.log(12), None),
        (0.1 + 1e-13, None),
    ],
)
def test_digits_of_a_subtraction_are_left_out(value: float, expected: Fraction | None):
    assert simple_number(as_number(value)) == expected


def _program(value: Number, dtype: DType = DType.F32) -> KernelGraph:
    x, b = Value(TensorType((4,), dtype)), Builder()
    y = b.binary(BinaryFn.ADD, x, b.constant(value, dtype))
    return KernelGraph("f", (x,), tuple(b.ops), (y,))


def _constants(graph: KernelGraph) -> list[Number]:
    return [op.value for op in graph.ops if isinstance(op, Constant)]


def test_what_is_read_compiles_to_the_same():
    value = as_number(1 - 0.9)
    for dtype, expected in ((DType.F32, Fraction(1, 10)), (DType.F64, value)):
        _, other, read = read_alike(_program(2, dtype), _program(value, dtype))
        assert _constants(other) == [expected]
        assert read == ({value: expected} if expected != value else {})


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        (math.log(12), Fraction(12)),
        (-math.log(2), Fraction(1, 2)),
        (math.log(0.3), Fraction(3, 10)),
    ],
)
def test_logarithms_of_simple_numbers(value: float, argument: Fraction):
    for first, second in ((value, 1), (1, value)):
        *graphs, read = with_functions_read(_program(as_number(first)), _program(as_number(second)))
        (log,) = read.values()
        assert log.of == argument
        written = graphs[0 if first == value else 1]
        assert [op.function for op in written.ops][1:] == [UnaryFn.LOG, BinaryFn.ADD]


@pytest.mark.parametrize("argument", [Fraction(3, 10), Fraction(-1), Fraction(7, 3)])
def test_exponentials_of_simple_numbers(argument: Fraction):
    value = as_number(math.exp(argument))
    _, written, read = with_functions_read(_program(1), _program(value))
    assert [str(found) for found in read.values()] == [f"exp({argument})"]
    assert [op.function for op in written.ops][1:] == [UnaryFn.EXP, BinaryFn.ADD]


@pytest.mark.parametrize(
    "value", [2.5, 128**-0.5, math.pi, math.log(12) + 1e-12, math.exp(0.3) + 1e-12]
)
def test_other_numbers_are_none_of_these(value: float):
    assert not with_functions_read(_program(as_number(value)), _program(1))[2]


def test_none_of_these_is_a_double():
    value = as_number(math.log(12))
    assert not with_functions_read(_program(value, DType.F64), _program(1, DType.F64))[2]
