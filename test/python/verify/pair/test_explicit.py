"""Roundings that a program writes are part of it where its result is about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Assumptions, Kind, VerifyOptions, verify

F16, BF16, F32 = DType.F16, DType.BF16, DType.F32
Build = Callable[[Builder, Value], Value]


def program(build: Build, dtype: DType = F32) -> KernelGraph:
    x = Value(TensorType((16, 256), dtype))
    b = Builder()
    y = build(b, x)
    return KernelGraph("main", (x,), tuple(b.ops), (y,))


def zero(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.SUB, x, x)


def itself(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, b.constant(1.0))


def constant(value: float) -> Build:
    return lambda b, x: b.broadcast(b.constant(value), x.shape)


def through(dtype: DType) -> Build:
    return lambda b, x: b.cast(b.cast(x, dtype), F32)


def remainder(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.SUB, x, through(F16)(b, x))


def to_integers(b: Builder, x: Value) -> Value:
    shifted = b.binary(BinaryFn.ADD, x, b.constant(12582912.0))
    return b.binary(BinaryFn.SUB, shifted, b.constant(12582912.0))


def correction(b: Builder, x: Value) -> Value:
    """Kahan's, of the sum of an element and 1000 of it."""
    y = b.binary(BinaryFn.MUL, x, b.constant(1000.0))
    total = b.binary(BinaryFn.ADD, x, y)
    return b.binary(BinaryFn.SUB, b.binary(BinaryFn.SUB, total, x), y)


def times_zero(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, b.constant(0.0))


def one(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.ADD, zero(b, x), b.constant(1.0))


def norm(narrow: bool) -> Build:
    """As Transformers writes it: the norm in f32, cast down, times a gain."""

    def build(b: Builder, x: Value) -> Value:
        wide = b.cast(x, F32)
        squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, wide), (1,))
        mean = b.binary(BinaryFn.MUL, squares, b.constant(1.0 / 256))
        root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, mean, b.constant(1e-6)))
        y = b.binary(BinaryFn.MUL, wide, root)
        y = b.cast(y, x.dtype) if narrow else y
        y = b.binary(BinaryFn.MUL, y, b.constant(1.7))
        return y if y.dtype is x.dtype else b.cast(y, x.dtype)

    return build


LOST = {
    "what a cast leaves": (remainder, zero),
    "a cast to bf16 and back": (through(BF16), itself),
    "a cast to f16 and back": (through(F16), itself),
    "rounding to integers": (to_integers, itself),
    "a correction": (correction, zero),
    "NaN times zero": (times_zero, constant(0.0)),
    "NaN minus itself": (one, constant(1.0)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_is_not_accepted(name: str, seed: int) -> None:
    first, second = LOST[name]
    verdict = verify(program(first), program(second), VerifyOptions(seed=seed))
    assert verdict.kind is Kind.PROVED
    assert not verdict.accepted, verdict
    kept = verify(program(first), program(first), VerifyOptions(seed=seed))
    assert kept.accepted, kept


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_a_norm_may_stay_in_f32(dtype: DType, seed: int) -> None:
    pair = program(norm(True), dtype), program(norm(False), dtype)
    assert verify(*pair, VerifyOptions(seed=seed)).accepted


def to_a_grid(step: float) -> Build:
    """Multiples of a small number: f16 has no smaller ones than 2^-24."""

    def build(b: Builder, x: Value) -> Value:
        small = b.binary(BinaryFn.MUL, x, b.constant(2.0**-24 / step))
        return b.binary(BinaryFn.MUL, through(F16)(b, small), b.constant(step * 2.0**24))

    return build


def test_a_grid_of_small_numbers_is_kept() -> None:
    """Casts whose effect is that of numbers too small for the type, on ordinary inputs."""
    verdict = verify(program(to_a_grid(0.25)), program(itself), VerifyOptions(seed=1))
    assert not verdict.accepted


@pytest.mark.parametrize("seed", range(6))
def test_what_tiny_inputs_lose_in_a_cast_need_not_be_lost(seed: int) -> None:
    """x times a gain is rounded to f16 before it is used: nothing is left of it where both are
    small, but that is not what the program is about."""
    x, gain = (Value(TensorType((16, 256), F16)) for _ in range(2))

    def graph(narrow: bool) -> KernelGraph:
        b = Builder()
        y = b.binary(BinaryFn.MUL, b.cast(x, F32), b.cast(gain, F32))
        y = b.cast(b.cast(y, F16), F32) if narrow else y
        squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, b.cast(x, F32)), (1,))
        root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, squares, b.constant(1e-8)))
        y = b.cast(b.binary(BinaryFn.MUL, y, root), F16)
        return KernelGraph("main", (x, gain), tuple(b.ops), (y,))

    verdict = verify(graph(True), graph(False), VerifyOptions(seed=seed))
    assert verdict.accepted, verdict


def test_assumptions_are_switches() -> None:
    pair = program(times_zero), program(constant(0.0))
    finite = verify(*pair, VerifyOptions(seed=1, assume=Assumptions(finite_inputs=True)))
    assert finite.accepted
    assert "finite inputs" in str(finite)

    # (x + x) + x against 3 x: other numbers
    def tripled(b: Builder, x: Value) -> Value:
        return b.binary(BinaryFn.ADD, b.binary(BinaryFn.ADD, x, x), x)

    def scaled(b: Builder, x: Value) -> Value:
        third = b.binary(BinaryFn.MUL, x, b.constant(0.3))
        return b.binary(BinaryFn.MUL, third, b.constant(10.0))

    pair = program(tripled), program(scaled)
    assert verify(*pair, VerifyOptions(seed=1)).accepted
    strict = VerifyOptions(seed=1, assume=Assumptions(reassociation=False))
    assert not verify(*pair, strict).accepted
    assert verify(pair[0], pair[0], strict).accepted
