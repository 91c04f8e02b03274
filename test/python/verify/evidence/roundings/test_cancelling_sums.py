"""A candidate that adds rounded numbers is detected where they cancel, however it divides the sum;
one that adds them in f32, or like the reference, is accepted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.cancelling_sums import adds_rounded, cancelling_sums
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pair.verification import Verification
from thorough import some_of

F16, BF16, F32 = DType.F16, DType.BF16, DType.F32
ROWS, WIDTH, COLUMNS = 4, 96, 48
Form = Callable[[Builder, Value, Value], Value]


def program(form: Form, dtype: DType) -> KernelGraph:
    b = Builder()
    x = Value(TensorType((ROWS, WIDTH), dtype), "x")
    w = Value(TensorType((WIDTH, COLUMNS), dtype), "w")
    y = b.cast(form(b, x, w), dtype)
    return KernelGraph("product", (x, w), tuple(b.ops), (y,))


def whole(b: Builder, x: Value, w: Value) -> Value:
    return b.matmul(x, w)


def in_parts(ends: tuple[int, ...], wide: bool = False) -> Form:
    """A product in parts of the sum, which are all rounded, or all f32."""

    def form(b: Builder, x: Value, w: Value) -> Value:
        if wide:
            x, w = b.cast(x, F32), b.cast(w, F32)
        parts = [
            b.matmul(b.slice(x, (0, i), (ROWS, j - i)), b.slice(w, (i, 0), (j - i, COLUMNS)))
            for i, j in zip((0, *ends), (*ends, WIDTH), strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = b.binary(BinaryFn.ADD, total, part)
        return total

    return form


def in_steps(b: Builder, x: Value, w: Value) -> Value:
    """Elements that are 3 apart are added first, then these sums, which are rounded."""
    x = b.transpose(b.reshape(x, (ROWS, WIDTH // 3, 3)), (2, 0, 1))
    w = b.transpose(b.reshape(w, (WIDTH // 3, 3, COLUMNS)), (1, 0, 2))
    total = b.reduce(ReduceFn.SUM, b.cast(b.matmul(x, w), F32), (0,))
    return b.reshape(total, (ROWS, COLUMNS))


def accepted(reference: KernelGraph, candidate: KernelGraph, seed: int) -> bool:
    test = Verification(reference, candidate, 0, VerifyOptions(seed=seed), seed, None, {})
    exact, rounding = test.tests(rounding=True)
    assert exact, test.evidence
    return bool(rounding)


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("form", [in_parts((48,)), in_parts((7, 50)), in_steps])
def test_parts_that_are_rounded_before_they_are_added_are_seen(dtype: DType, form: Form) -> None:
    reference, candidate = program(whole, dtype), program(form, dtype)
    assert adds_rounded(candidate)
    assert not adds_rounded(reference)
    for seed in range(3):
        assert not accepted(reference, candidate, seed)


def beside_low_rank(halves: bool, dtype: DType) -> KernelGraph:
    """A product and a low-rank one, whose inner product is rounded as a whole, or in halves that
    are added after the product with the second factor."""
    b = Builder()
    shapes = {"x": (ROWS, 256), "w": (256, COLUMNS), "a": (256, 16), "b": (16, COLUMNS)}
    given = tuple(Value(TensorType(s, dtype), name) for name, s in shapes.items())
    x, w, low, high = given
    if not halves:
        y = b.binary(BinaryFn.ADD, b.matmul(x, w), b.matmul(b.matmul(x, low), high))
        return KernelGraph("low rank", given, tuple(b.ops), (y,))
    total = b.matmul(b.cast(x, F32), b.cast(w, F32))
    for k in (0, 128):
        part = b.matmul(b.slice(x, (0, k), (ROWS, 128)), b.slice(low, (k, 0), (128, 16)))
        part = b.matmul(b.cast(part, F32), b.cast(high, F32))
        total = b.binary(BinaryFn.ADD, total, part)
    y = b.cast(total, dtype)
    return KernelGraph("low rank", given, tuple(b.ops), (y,))


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_halves_of_a_low_rank_are_seen_beside_a_product(dtype: DType) -> None:
    """A part of the result cancels, and the rest of it is about as large."""
    reference, candidate = (beside_low_rank(halves, dtype) for halves in (False, True))
    assert not any(accepted(reference, candidate, seed) for seed in range(4))


def of_two_sums(halves: bool) -> KernelGraph:
    """The square of a sum; one factor may be the sum of rounded halves."""
    b = Builder()
    x, w = Value(TensorType((ROWS, 512), F16), "x"), Value(TensorType((512, COLUMNS), F16), "w")
    if halves:
        parts = [
            b.matmul(b.slice(x, (0, k), (ROWS, 256)), b.slice(w, (k, 0), (256, COLUMNS)))
            for k in (0, 256)
        ]
        first = b.binary(BinaryFn.ADD, *(b.cast(part, F32) for part in parts))
    else:
        first = b.cast(b.matmul(x, w), F32)
    y = b.cast(b.binary(BinaryFn.MUL, first, b.cast(b.matmul(x, w), F32)), F16)
    y = b.binary(BinaryFn.MUL, y, b.constant(2.0**-9, F16))
    return KernelGraph("two sums", (x, w), tuple(b.ops), (y,))


def test_products_of_two_sums_that_cancel_do_not_vanish() -> None:
    """If all results were zero, or had one digit left, no error would be visible."""
    graphs = of_two_sums(False), of_two_sums(True)
    sample = choose_sample(graphs, 1e6, np.random.default_rng(0))
    draw = Activations(graphs[0], sample, 0, {})
    every = {s.name: s for s in cancelling_sums(draw, graphs) if s is not None}
    inputs = every["sums of input 0 along dimension 1 cancel"].inputs
    (results,) = outputs_of(graphs[0], 0, Yardstick(), inputs, sample)
    assert np.abs(results).max() > 2.0**-9


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_parts_that_are_added_in_f32_or_as_the_reference_adds_them_are_right(dtype: DType) -> None:
    wide, parts = program(in_parts((48,), True), dtype), program(in_parts((48,)), dtype)
    assert not adds_rounded(wide)
    assert accepted(program(whole, dtype), wide, 0)
    assert accepted(parts, program(in_parts((48,)), dtype), 0)
    assert accepted(parts, program(whole, dtype), 0)


def with_summand(wide: bool, dtype: DType, shape: tuple[int, ...]) -> KernelGraph:
    """A product and a summand, which are added in f32, or after the product is rounded."""
    b = Builder()
    x = Value(TensorType((ROWS, WIDTH), dtype), "x")
    w = Value(TensorType((WIDTH, COLUMNS), dtype), "w")
    y = Value(TensorType(shape, dtype), "y")
    if wide:
        total = b.matmul(b.cast(x, F32), b.cast(w, F32))
    else:
        total = b.cast(b.cast(b.matmul(x, w), dtype), F32)
    out = b.cast(b.binary(BinaryFn.ADD, total, b.cast(y, F32)), dtype)
    return KernelGraph("sum", (x, w, y), tuple(b.ops), (out,))


@pytest.mark.parametrize(
    "shape", some_of([(COLUMNS,), (ROWS, COLUMNS), (ROWS, 1)], every=2, one_value=True)
)
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_a_product_that_is_rounded_before_something_is_added_is_seen(
    dtype: DType, shape: tuple[int, ...]
) -> None:
    wide, rounded = (with_summand(w, dtype, shape) for w in (True, False))
    assert not accepted(wide, rounded, 0)
    assert accepted(rounded, wide, 0)
    assert accepted(wide, with_summand(True, dtype, shape), 0)


def beside_a_chain(factors: tuple[float, ...]) -> KernelGraph:
    """A sum of rounded parts, and an input multiplied by numbers, rounded after each of them."""
    b = Builder()
    x = Value(TensorType((ROWS, WIDTH), BF16), "x")
    w = Value(TensorType((WIDTH, COLUMNS), BF16), "w")
    g = Value(TensorType((ROWS, COLUMNS), BF16), "g")
    y, z = in_parts((48,))(b, x, w), g
    for factor in factors:
        z = b.binary(BinaryFn.MUL, z, b.constant(factor, BF16))
    return KernelGraph("beside", (x, w, g), tuple(b.ops), (y, z))


def test_what_constants_round_to_is_a_matter_of_luck() -> None:
    """In one order, the four roundings of a constant cancel; in another one, they add up."""
    lucky = beside_a_chain((0.43359375, 0.56640625, 0.69921875, 2.03125))
    other = beside_a_chain((2.03125, 0.43359375, 0.56640625, 0.69921875))
    assert adds_rounded(lucky)
    assert adds_rounded(other)
    assert all(accepted(lucky, other, seed) for seed in range(3))


def normed(before: bool) -> KernelGraph:
    """A product of a normed row with gains, which is divided by its size before or after it."""
    b = Builder()
    x = Value(TensorType((ROWS, WIDTH), BF16), "x")
    gain = Value(TensorType((WIDTH,), BF16), "gain")
    w = Value(TensorType((WIDTH, COLUMNS), BF16), "w")
    wide = b.cast(x, F32)
    squares = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.MUL, wide, wide), (1,))
    mean = b.binary(BinaryFn.MUL, squares, b.constant(1.0 / WIDTH))
    size = b.unary(UnaryFn.RSQRT, mean)
    if before:
        row = b.binary(BinaryFn.MUL, b.cast(b.binary(BinaryFn.MUL, wide, size), BF16), gain)
        y = b.matmul(row, w)
    else:
        y = b.matmul(b.binary(BinaryFn.MUL, x, gain), w)
        y = b.cast(b.binary(BinaryFn.MUL, b.cast(y, F32), size), BF16)
    return KernelGraph("normed", (x, gain, w), tuple(b.ops), (y,))


def test_a_normed_constant_is_exact_by_luck() -> None:
    """A row of equal numbers is 1 after the norm, so the reference rounds nothing."""
    reference, candidate = normed(before=True), normed(before=False)
    assert all(accepted(reference, candidate, seed) for seed in range(3))
