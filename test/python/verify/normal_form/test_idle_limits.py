"""Limits that no element reaches are left out, and others are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.nearest_whole import nearest_whole
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.normal_form.idle_limits import without_idle_limits

Scale = Callable[[Builder, Value], Value]


def largest(b: Builder, x: Value, dim: int = 1) -> Value:
    return b.reduce(ReduceFn.MAX, b.unary(UnaryFn.ABS, x), (dim,))


def at_least(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MAX, x, b.constant(1e-5))


def length(b: Builder, x: Value) -> Value:
    squares = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.MUL, x, x), (1,))
    return b.unary(UnaryFn.SQRT, b.binary(BinaryFn.ADD, squares, b.constant(1e-6)))


def limits(scale: Scale, limit: float, times: float = 127.0, rounded: bool = True) -> int:
    """Return the number of remaining limits of a rounded quotient that is limited on both sides."""
    b = Builder()
    x = graphs.tensor(4, 8, dtype=DType.F32)
    y = b.binary(BinaryFn.DIV, x, b.binary(BinaryFn.DIV, scale(b, x), b.constant(times)))
    y = nearest_whole(b, y) if rounded else y
    y = b.binary(BinaryFn.MAX, y, b.constant(-limit))
    y = b.binary(BinaryFn.MIN, y, b.constant(limit))
    found = without_idle_limits(KernelGraph("g", (x,), tuple(b.ops), (y,)))
    numbers = {op.result for op in found.ops if op.number is not None}
    return sum(
        op.function in (BinaryFn.MAX, BinaryFn.MIN)
        and not numbers.isdisjoint(op.operands)
        and op.result.shape == (4, 8)
        for op in found.ops
    )


@pytest.mark.parametrize(
    "scale",
    [
        lambda b, x: at_least(b, largest(b, x)),
        lambda b, x: b.binary(BinaryFn.ADD, largest(b, x), b.constant(1e-5)),
        lambda b, x: b.reshape(b.reshape(largest(b, x), (4,)), (4, 1)),
        lambda b, x: b.reduce(ReduceFn.SUM, b.unary(UnaryFn.ABS, x), (0, 1)),
        length,
    ],
    ids=["at least", "a little more", "reshaped", "sum of all", "length"],
)
def test_a_limit_beyond_the_largest_is_left_out(scale: Scale) -> None:
    assert limits(scale, 127.0) == 0
    assert limits(scale, 126.5) == 2
    assert limits(scale, 0.5, 0.5, rounded=False) == 0
    assert limits(scale, 126.9, rounded=False) == 2


@pytest.mark.parametrize(
    "scale",
    [
        lambda b, x: at_least(b, b.reduce(ReduceFn.MAX, x, (1,))),
        lambda b, x: b.reduce(ReduceFn.SUM, x, (1,)),
        lambda b, x: b.binary(BinaryFn.ADD, largest(b, x), b.constant(-1e-5)),
        lambda b, x: b.binary(BinaryFn.MIN, largest(b, x), b.constant(3.0)),
        lambda b, x: largest(b, b.unary(UnaryFn.EXP, x)),
        lambda b, x: b.unary(UnaryFn.SQRT, largest(b, x)),
        lambda b, x: b.reshape(b.slice(largest(b, x, 0), (0, 0), (1, 4)), (4, 1)),
    ],
    ids=["signed", "sum", "less", "smaller", "another", "root", "columns"],
)
def test_other_limits_are_kept(scale: Scale) -> None:
    assert limits(scale, 127.0) == 2
