"""Which inputs may hold minus infinity."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.roundings.input_roles import may_be_masks

F32 = DType.F32
Form = Callable[[Builder, Value, Value], Value]


def add(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(BinaryFn.ADD, x, y)


def exponential(b: Builder, scores: Value) -> Value:
    largest = b.reduce(ReduceFn.MAX, scores, (1,))
    return b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, scores, largest))


def masked(b: Builder, x: Value, y: Value) -> Value:
    return exponential(b, add(b, b.unary(UnaryFn.SQUARE, x), y))


def masked_after_a_number(b: Builder, x: Value, y: Value) -> Value:
    y = add(b, b.constant(0.5), y)
    return exponential(b, add(b, b.unary(UnaryFn.SQUARE, x), y))


def gain(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, y)


def gain_about_one(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, add(b, b.cast(y, F32), b.constant(1.0)))


@pytest.mark.parametrize(
    ("form", "expected"),
    [(masked, {1}), (masked_after_a_number, {1}), (gain, set()), (gain_about_one, set())],
)
def test_masks(form: Form, expected: set[int]) -> None:
    b = Builder()
    x = Value(TensorType((4, 8), F32), "x")
    y = Value(TensorType((4, 8), DType.BF16 if form is gain_about_one else F32), "y")
    result = form(b, x, y)
    assert may_be_masks(KernelGraph("roles", (x, y), tuple(b.ops), (result,))) == expected
