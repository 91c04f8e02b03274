"""Roundings that a program writes are part of it if its result depends on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Assumptions, Kind, VerifyOptions, verify
from mirage.verify.evidence.roundings import rounding
from mirage.verify.evidence.roundings.explicit import WithCasts, nearby, written_casts
from thorough import some_of

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
    """Kahan's correction, for the sum of an element and 1000 times this element."""
    y = b.binary(BinaryFn.MUL, x, b.constant(1000.0))
    total = b.binary(BinaryFn.ADD, x, y)
    return b.binary(BinaryFn.SUB, b.binary(BinaryFn.SUB, total, x), y)


def times_zero(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, b.constant(0.0))


def one(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.ADD, zero(b, x), b.constant(1.0))


def norm(narrow: bool) -> Build:
    """The norm as in Transformers: in f32, cast down, times a gain."""

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


@pytest.mark.parametrize("seed", some_of(range(3), every=3))
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


def distance(narrow: bool, wide_result: bool = False) -> Build:
    """The norm of each row minus that of the rotated row, as PyTorch computes it in 16 bits: each
    norm is rounded."""

    def build(b: Builder, x: Value) -> Value:
        def size(y: Value) -> Value:
            squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, b.cast(y, F32)), (1,))
            root = b.unary(UnaryFn.SQRT, squares)
            return b.cast(root, F16) if narrow else root

        y = b.binary(BinaryFn.SUB, size(x), size(b.binary(BinaryFn.MUL, x, b.constant(0.99))))
        return b.cast(y, F32 if wide_result else F16)

    return build


@pytest.mark.parametrize("seed", range(3))
def test_what_goes_on_in_16_bits_may_stay_in_f32(seed: int) -> None:
    pair = program(distance(True), F16), program(distance(False), F16)
    assert verify(*pair, VerifyOptions(seed=seed)).accepted


@pytest.mark.parametrize("seed", range(3))
def test_what_the_other_type_of_16_bits_leaves_is_kept(seed: int) -> None:
    def left(b: Builder, x: Value) -> Value:
        return b.binary(BinaryFn.SUB, x, b.cast(b.cast(x, BF16), F16))

    first, second = program(left, F16), program(zero, F16)
    assert not verify(first, second, VerifyOptions(seed=seed)).accepted
    assert verify(first, first, VerifyOptions(seed=seed)).accepted


def test_what_is_handed_out_in_a_wider_type_may_not() -> None:
    pair = program(distance(True, True), F16), program(distance(False, True), F16)
    assert not verify(*pair, VerifyOptions(seed=1)).accepted


def test_casts_of_which_a_program_is_made() -> None:
    def casts(build: Build) -> int:
        return len(written_casts(program(build, F16)))

    assert casts(distance(True)) == 0
    assert casts(distance(True, True)) == 2
    assert casts(through(F16)) == 1
    assert casts(lambda b, x: b.cast(remainder(b, b.cast(x, F32)), F16)) == 1
    turned = lambda b, x: b.cast(b.transpose(b.cast(b.cast(x, F32), F16), (1, 0)), F32)  # noqa: E731
    assert casts(lambda b, x: b.cast(b.unary(UnaryFn.EXP, turned(b, x)), F16)) == 1


def test_what_overflows_in_a_cast_is_not_known() -> None:
    """A candidate may do better than continue with infinity; an infinite number stays infinite."""
    x = np.array([1.0, 65504.0, 65520.0, -1e6, np.inf, -np.inf, np.nan])
    for ordinary in (True, False):
        (found,) = WithCasts(ordinary).cast((x,), F16)
        np.testing.assert_array_equal(found[:2], [1.0, 65504.0])
        assert np.isnan(found[[2, 3, 6]]).all()
        np.testing.assert_array_equal(found[4:6], [np.inf, -np.inf])
        (wide,) = WithCasts(ordinary).cast((x,), F32)
        np.testing.assert_array_equal(wide, x)
        (number,) = WithCasts(ordinary).cast((np.asarray(1.0 + 2.0**-13),), F16)
        assert number == 1.0
        assert number.shape == ()


def test_small_numbers_keep_their_digits_where_inputs_are_not_ordinary() -> None:
    x = np.array([3.0 * 2.0**-26])
    assert WithCasts(True).cast((x,), F16)[0][0] != x[0]
    assert WithCasts(False).cast((x,), F16)[0][0] == x[0]


@pytest.mark.parametrize("size", [1, 16, 1000])
def test_changes_of_inputs_are_drawn_several_times(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect of rounding inputs on one number is a matter of chance, and parts of large outputs
    are small."""
    seen: list[Sequence[int]] = []

    def noted(
        inputs: Sequence[Sampled], types: Sequence[DType], seed: Sequence[int]
    ) -> list[Sampled]:
        seen.append(seed)
        return nearby(inputs, types, seed)

    monkeypatch.setattr(rounding, "nearby", noted)
    x = Value(TensorType((size, 4), F32))
    b = Builder()
    y = b.reduce(ReduceFn.SUM, through(BF16)(b, x), (1,))
    z = Builder()
    other = z.reduce(ReduceFn.SUM, x, (1,))
    first = KernelGraph("a", (x,), tuple(b.ops), (y,))
    second = KernelGraph("b", (x,), tuple(z.ops), (other,))
    verify(first, second, VerifyOptions(seed=3))
    assert seen
    first_draws = [seed[1] for seed in seen]
    assert max(first_draws) + 1 == 8


def to_a_grid(step: float) -> Build:
    """Multiples of a small number: the smallest number of f16 is 2^-24."""

    def build(b: Builder, x: Value) -> Value:
        small = b.binary(BinaryFn.MUL, x, b.constant(2.0**-24 / step))
        return b.binary(BinaryFn.MUL, through(F16)(b, small), b.constant(step * 2.0**24))

    return build


def test_a_grid_of_small_numbers_is_kept() -> None:
    """Casts that lose numbers too small for the type, on ordinary inputs."""
    verdict = verify(program(to_a_grid(0.25)), program(itself), VerifyOptions(seed=1))
    assert not verdict.accepted


@pytest.mark.parametrize("seed", some_of(range(6), every=2))
def test_what_tiny_inputs_lose_in_a_cast_need_not_be_lost(seed: int) -> None:
    """x times a gain is rounded to f16 before it is used: it vanishes if both are small, but this
    is not the purpose of the program."""
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
