"""Integers that kernels store: a candidate must compute the same numbers, without any rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify

Count = Callable[[Builder, Value], Value]


def summed(b: Builder, x: Value) -> Value:
    return b.reduce(ReduceFn.SUM, x, (1,))


def in_halves(b: Builder, x: Value) -> Value:
    first, second = (summed(b, b.slice(x, (0, i), (4, 24))) for i in (0, 24))
    return b.binary(BinaryFn.ADD, first, second)


def scaled_by(factor: Fraction) -> Count:
    def count(b: Builder, x: Value) -> Value:
        parts = b.binary(BinaryFn.MUL, x, b.constant(factor))
        return b.binary(BinaryFn.MUL, summed(b, parts), b.constant(1 / factor))

    return count


def counted(count: Count) -> KernelGraph:
    """The number of positive elements of each row, as an i64."""
    x, b = Value(TensorType((4, 48), DType.F32), "x"), Builder()
    positive = b.cast(b.binary(BinaryFn.LT, b.constant(0), x), DType.F32)
    y = b.cast(count(b, positive), DType.I64, whole=True)
    return KernelGraph("counted", (x,), tuple(b.ops), (y,))


@pytest.mark.parametrize("count", [in_halves, scaled_by(Fraction(1, 4))])
def test_whole_numbers_in_another_order_are_accepted(count: Count) -> None:
    assert verify(counted(summed), counted(count), VerifyOptions(seed=1)).accepted


@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(1, 10)])
def test_what_rounds_on_the_way_is_not(factor: Fraction) -> None:
    """16 thirds, times 3, may be 15.999999."""
    verdict = verify(counted(summed), counted(scaled_by(factor)), VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED  # for real numbers
    assert not verdict.accepted
