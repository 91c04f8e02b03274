"""Scores that may be far from 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, Launch, TensorType, Value
from mirage.transforms.online_max.far_scores import FarScores, holds_far_numbers

Score = Callable[[Builder, Value], Value]


def is_far(score: Score, dtype: DType) -> bool:
    tensor = Value(TensorType((16, 16), dtype), "x")
    b = Builder(in_block=True)
    made = score(b, b.load(tensor, ((), ()), (16, 16)))
    launch = Launch((tensor,), (), (Axis("b", 1),), BlockGraph((tensor,), tuple(b.ops), ()))
    return made in FarScores(launch)


def product(b: Builder, x: Value) -> Value:
    return b.matmul(x, x)


def plus(number: float) -> Score:
    return lambda b, x: b.binary(BinaryFn.ADD, product(b, x), b.constant(number, DType.F32))


def masked(b: Builder, x: Value) -> Value:
    wide = b.cast(x, DType.F32)
    absent = b.binary(BinaryFn.LT, wide, b.constant(1.0, DType.F32))
    low = b.binary(BinaryFn.MUL, absent, b.constant(-1e9, DType.F32))
    return b.binary(BinaryFn.ADD, product(b, x), low)


def masked_by_a_tile(b: Builder, x: Value) -> Value:
    absent = b.binary(BinaryFn.LT, b.cast(x, DType.F32), b.constant(1.0, DType.F32))
    low = b.broadcast(b.constant(-1e9, DType.F32), absent.shape)
    return b.binary(BinaryFn.ADD, product(b, x), b.binary(BinaryFn.MUL, absent, low))


def added(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.ADD, product(b, x), b.cast(x, DType.F32))


def sloped(b: Builder, x: Value) -> Value:
    wide = b.cast(x, DType.F32)
    return b.binary(BinaryFn.ADD, product(b, x), b.binary(BinaryFn.MUL, wide, wide))


def scaled(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, added(b, x), b.constant(0.3, DType.F32))


def of_no_product(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, x)


def capped(b: Builder, x: Value) -> Value:
    return b.unary(UnaryFn.TANH, b.cast(x, DType.F32))


def normed(b: Builder, x: Value) -> Value:
    sums = b.reduce(ReduceFn.SUM, b.cast(x, DType.F32), (1,))
    return b.binary(BinaryFn.MUL, product(b, x), b.unary(UnaryFn.RSQRT, sums))


@pytest.mark.parametrize(
    ("score", "dtype", "far"),
    [
        (lambda b, x: x, DType.BF16, True),
        (lambda b, x: x, DType.F16, False),
        (product, DType.BF16, False),
        (plus(-3e38), DType.F16, True),
        (plus(-float("inf")), DType.F16, False),
        (plus(100.0), DType.F16, False),
        (masked, DType.F16, True),
        (masked_by_a_tile, DType.F16, True),
        (added, DType.BF16, True),
        (sloped, DType.F32, False),
        (scaled, DType.F32, True),
        (of_no_product, DType.F32, True),
        (capped, DType.BF16, False),
        (normed, DType.BF16, False),
    ],
)  # fmt: skip
def test_what_reaches_a_score(score: Score, dtype: DType, far: bool) -> None:
    assert is_far(score, dtype) is far


def test_types() -> None:
    far = {d for d in DType if holds_far_numbers(d)}
    assert far == {DType.BF16, DType.F32, DType.F64, DType.I32, DType.I64}
