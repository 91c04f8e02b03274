"""Inputs that may hold minus infinity."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.roundings.input_roles import may_be_masks

SHAPE = (6, 24)
F32 = DType.F32
Form = Callable[[Builder, Value, Value], Value]
X, M, Y, U = (Value(TensorType(SHAPE, DType.F32), name) for name in "xmyu")


def exponentials(b: Builder, scores: Value, parts: int = 1) -> Value:
    """Exponentials of scores minus their maximum; with several parts, each minus its own maximum
    first, which gives NaN if a part is empty."""
    size = SHAPE[1] // parts
    most = b.reduce(ReduceFn.MAX, scores, (1,))
    found: list[Value] = []
    for i in range(parts):
        part = b.slice(scores, (0, i * size), (SHAPE[0], size)) if parts > 1 else scores
        own = b.reduce(ReduceFn.MAX, part, (1,)) if parts > 1 else most
        e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, part, own))
        if parts > 1:
            e = b.binary(BinaryFn.MUL, e, b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, own, most)))
        found.append(e)
    return found[0] if parts == 1 else b.concat(tuple(found), 1)


def program(parts: int = 1, number: float = -1e9) -> KernelGraph:
    """Scores with a mask of a large number, and others with a mask of the caller's."""
    b = Builder()
    least = b.binary(BinaryFn.MUL, M, b.constant(number))
    first = exponentials(b, b.binary(BinaryFn.ADD, X, least))
    second = exponentials(b, b.binary(BinaryFn.ADD, Y, U), parts)
    return KernelGraph("masked", (X, M, Y, U), tuple(b.ops), (first, second))


def test_inputs_that_meet_large_numbers_are_left_out() -> None:
    assert may_be_masks(program()) == {2, 3}
    assert may_be_masks(program(number=-5.0)) == {0, 2, 3}


def test_a_sum_that_is_multiplied_has_no_masks() -> None:
    """A weight and a summand; scores and a summand."""
    x, w, d, q, m = (Value(TensorType((8, 8), DType.F32), name) for name in "xwdqm")
    b = Builder()
    product = b.matmul(x, b.transpose(b.binary(BinaryFn.ADD, w, d), (1, 0)))
    scores = b.binary(BinaryFn.ADD, b.matmul(x, q), m)
    whole = b.unary(UnaryFn.EXP, b.binary(BinaryFn.MUL, scores, b.constant(0.25)))
    graph = KernelGraph("sums", (x, w, d, q, m), tuple(b.ops), (product, whole))
    assert may_be_masks(graph) == {4}


def test_what_is_held_may_be_such_a_mask() -> None:
    assert may_be_masks(program(number=-5.0), {3: np.full(SHAPE, -1e9)}) == {0}


@pytest.mark.parametrize("number", [-5.0, -1e9])
def test_a_mask_beside_large_numbers_may_leave_nothing_of_a_part(number: float) -> None:
    options = VerifyOptions(seed=1)
    assert verify(program(number=number), program(number=number), options).accepted
    verdict = verify(program(number=number), program(2, number), options)
    assert verdict.kind is Kind.PROVED, verdict
    assert not verdict.accepted


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
