"""Values that are reported as positive are positive for all inputs; values that may be zero are
not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import TensorType, Value
from mirage.verify.normal_form.certainty import Certain

Made = Callable[[Builder, Value], Value]


def exp(b: Builder, x: Value) -> Value:
    return b.unary(UnaryFn.EXP, x)


def softmax(b: Builder, x: Value) -> Value:
    e = exp(b, x)
    return b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))


def masked(b: Builder, x: Value) -> Value:
    mask = b.unary(UnaryFn.BIAS, b.cast(b.binary(BinaryFn.LT, x, b.constant(0.0)), DType.F32))
    return exp(b, b.binary(BinaryFn.ADD, x, mask))


POSITIVE: dict[str, Made] = {
    "an exponential": exp,
    "a softmax": softmax,
    "a square and a number": lambda b, x: b.binary(
        BinaryFn.ADD, b.unary(UnaryFn.SQUARE, x), b.constant(1e-6)
    ),
    "a root of one": lambda b, x: b.unary(UnaryFn.SQRT, softmax(b, x)),
    "a largest one": lambda b, x: b.binary(BinaryFn.MAX, x, b.constant(0.5)),
}
NOT_CERTAIN: dict[str, Made] = {
    "an input": lambda b, x: x,
    "a square": lambda b, x: b.unary(UnaryFn.SQUARE, x),
    "a difference": lambda b, x: b.binary(BinaryFn.SUB, exp(b, x), b.constant(1.0)),
    "a sum with any number": lambda b, x: b.binary(BinaryFn.ADD, exp(b, x), x),
    "what a mask leaves out": masked,
    "what f16 may not hold": lambda b, x: b.cast(exp(b, x), DType.F16),
    "less than one": lambda b, x: b.binary(BinaryFn.MIN, exp(b, x), x),
}


def is_positive(made: Made) -> bool:
    b, x = Builder(), Value(TensorType((3, 4), DType.F32))
    y = made(b, x)
    numbers = {op.results[0]: op.number for op in b.ops if op.number is not None}
    return Certain({v: op for op in b.ops for v in op.results}, numbers).is_positive(y)


@pytest.mark.parametrize("name", POSITIVE)
def test_what_is_positive(name: str) -> None:
    assert is_positive(POSITIVE[name])


@pytest.mark.parametrize("name", NOT_CERTAIN)
def test_what_may_not_be(name: str) -> None:
    assert not is_positive(NOT_CERTAIN[name])
