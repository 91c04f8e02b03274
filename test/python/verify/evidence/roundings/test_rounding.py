"""Candidates that are equal over the real numbers and lose some or all digits on inputs like those
of models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.roundings.row_errors import compare_rows
from mirage.verify.pair.verification import Verification
from thorough import some_of

F16, F32 = DType.F16, DType.F32
M, K, N = 8, 512, 64
SEEDS = range(3)
Program = Callable[[Builder, list[Value]], Value]


def program(shapes: list[tuple[int, ...]], dtype: DType, build: Program) -> KernelGraph:
    inputs = [Value(TensorType(s, dtype)) for s in shapes]
    b = Builder()
    y = build(b, inputs)
    y = y if y.dtype is dtype else b.cast(y, dtype)
    return KernelGraph("main", tuple(inputs), tuple(b.ops), (y,))


def mean(b: Builder, x: Value) -> Value:
    total = b.reduce(ReduceFn.SUM, x, (len(x.shape) - 1,))
    return b.binary(BinaryFn.MUL, total, b.constant(1.0 / x.shape[-1]))


def inverse_root(b: Builder, x: Value) -> Value:
    return b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, x, b.constant(1e-6)))


# ---- norms


def rms(b: Builder, x: Value) -> Value:
    wide = b.cast(x, F32)
    return b.binary(BinaryFn.MUL, wide, inverse_root(b, mean(b, b.unary(UnaryFn.SQUARE, wide))))


def rms_linear(gain: bool = True, order: str = "norm first") -> Program:
    def build(b: Builder, inputs: list[Value]) -> Value:
        x, g, w = inputs
        dtype = x.dtype
        wide = b.cast(x, F32)
        scale = inverse_root(b, mean(b, b.unary(UnaryFn.SQUARE, wide)))
        if order == "norm first":
            y = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, wide, scale), b.cast(g, F32))
            return b.matmul(b.cast(y, dtype), w)
        if order == "gain into the input":
            y = b.matmul(b.binary(BinaryFn.MUL, x, g), w)
        elif order == "gain into the weight":
            y = b.matmul(x, b.binary(BinaryFn.MUL, b.reshape(g, (g.shape[0], 1)), w))
        else:  # in f32
            y = b.matmul(b.binary(BinaryFn.MUL, wide, b.cast(g, F32)), b.cast(w, F32))
        return b.binary(BinaryFn.MUL, b.cast(y, F32), scale)

    return build


def layer_norm(form: str) -> Program:
    def build(b: Builder, inputs: list[Value]) -> Value:
        x = b.cast(inputs[0], F32)
        m = mean(b, x)
        centred = b.binary(BinaryFn.SUB, x, m)
        if form == "centred":
            variance = mean(b, b.unary(UnaryFn.SQUARE, centred))
        else:
            squares = mean(b, b.unary(UnaryFn.SQUARE, x))
            variance = b.binary(BinaryFn.SUB, squares, b.unary(UnaryFn.SQUARE, m))
        return b.binary(BinaryFn.MUL, centred, inverse_root(b, variance))

    return build


def squares_in_half(b: Builder, inputs: list[Value]) -> Value:
    (x,) = inputs
    wide = b.cast(x, F32)
    squares = b.cast(mean(b, b.unary(UnaryFn.SQUARE, wide)), x.dtype)
    return b.binary(BinaryFn.MUL, wide, inverse_root(b, b.cast(squares, F32)))


# ---- domains


def product(b: Builder, inputs: list[Value]) -> Value:
    return b.binary(BinaryFn.MUL, *inputs)


def product_over(b: Builder, inputs: list[Value]) -> Value:
    x, y = inputs
    squared = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, x, x), y)
    return b.binary(BinaryFn.DIV, squared, x)


def relu_linear(scaled: bool) -> Program:
    def build(b: Builder, inputs: list[Value]) -> Value:
        x = b.unary(UnaryFn.RELU, b.cast(inputs[0], F32))
        if not scaled:
            return b.matmul(x, b.cast(inputs[1], F32))
        total = b.reduce(ReduceFn.SUM, x, (1,))
        y = b.matmul(b.binary(BinaryFn.DIV, x, total), b.cast(inputs[1], F32))
        return b.binary(BinaryFn.MUL, y, total)

    return build


def plus_root(added: bool) -> Program:
    def build(b: Builder, inputs: list[Value]) -> Value:
        (x,) = inputs
        if not added:
            return x
        root = b.unary(UnaryFn.SQRT, b.binary(BinaryFn.ADD, x, b.constant(1000.0)))
        return b.binary(BinaryFn.ADD, x, b.binary(BinaryFn.MUL, root, b.constant(0.0)))

    return build


def attention(wide: bool) -> Program:
    """With scores of the inputs' type, or of f32. If two of a row's largest scores are nearly
    equal, one rounding decides about the row, and it is a matter of chance which program's error is
    smaller."""

    def build(b: Builder, inputs: list[Value]) -> Value:
        q, k, v, w = inputs
        left, right = b.matmul(q, w), b.transpose(k, (1, 0))
        if wide:
            left, right = b.cast(left, F32), b.cast(right, F32)
        return b.matmul(b.cast(b.softmax(b.matmul(left, right), 1), v.dtype), v)

    return build


ATTENTION = [(32, 64), (32, 64), (32, 64), (64, 64)]
LINEAR = [(M, K), (K,), (K, N)]
REFUSED = {
    "gain into the input": (LINEAR, rms_linear(), rms_linear(order="gain into the input")),
    "gain into the weight": (LINEAR, rms_linear(), rms_linear(order="gain into the weight")),
    "moments": ([(M, K)], layer_norm("centred"), layer_norm("moments")),
    "squares in half": ([(M, K)], lambda b, i: rms(b, i[0]), squares_in_half),
    "x y as x x y over x": ([(M, K), (M, K)], product, product_over),
    "scaled by a sum that may be zero": ([(M, K), (K, N)], relu_linear(False), relu_linear(True)),
    "the root of a negative number": ([(M, K)], plus_root(False), plus_root(True)),
}
FINE = {
    "norm first": (LINEAR, rms_linear(), rms_linear()),
    "products in f32": (LINEAR, rms_linear(), rms_linear(order="f32")),
    "layer norm": ([(M, K)], layer_norm("centred"), layer_norm("centred")),
    "relu": ([(M, K), (K, N)], relu_linear(False), relu_linear(False)),
    "attention": (ATTENTION, attention(False), attention(True)),
}


@pytest.mark.parametrize("seed", some_of(SEEDS, every=3))
@pytest.mark.parametrize("name", REFUSED)
def test_what_gives_no_numbers_is_not_accepted(name: str, seed: int) -> None:
    shapes, first, second = REFUSED[name]
    verdict = verify(
        program(shapes, F16, first), program(shapes, F16, second), VerifyOptions(seed=seed)
    )
    assert not verdict.accepted, verdict


@pytest.mark.parametrize(
    ("dtype", "seed"), some_of(zip([DType.F16, DType.BF16, DType.F32], SEEDS), every=3)
)
@pytest.mark.parametrize("name", FINE)
def test_what_holds_is_accepted(name: str, dtype: DType, seed: int) -> None:
    shapes, first, second = FINE[name]
    verdict = verify(
        program(shapes, dtype, first), program(shapes, dtype, second), VerifyOptions(seed=seed)
    )
    assert verdict.kind is Kind.PROVED
    assert verdict.accepted, verdict


def test_evidence_says_where() -> None:
    shapes, first, second = REFUSED["gain into the input"]
    verdict = verify(program(shapes, F16, first), program(shapes, F16, second))
    (evidence,) = (e for e in verdict.evidence if e.name == "rounding errors")
    assert evidence.holds is False
    assert "output 0" in evidence.text
    assert evidence.text.rpartition(": ")[2]


# ---- rows


def rows(scale: float) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((4, 256)) * scale


def test_one_wrong_row_among_large_ones_is_seen() -> None:
    exact = rows(1.0)
    exact[0] *= 2.0**-12
    reference = F16.round(exact)
    candidate = reference.copy()
    assert compare_rows(exact, reference, candidate, F16, "", "").holds
    candidate[0] *= 1.01
    assert not compare_rows(exact, reference, candidate, F16, "", "").holds


def test_a_product_may_be_transposed_in_f32_at_every_seed() -> None:
    """Sums of a few dozen numbers are off by a few units in the last place, and by more if they are
    added one after the other. Which of both happens does not depend on how tensors are moved."""

    def softmax(transposed: bool) -> Program:
        def build(b: Builder, inputs: list[Value]) -> Value:
            x, w = inputs
            y = b.matmul(x, w)
            if transposed:
                y = b.matmul(b.transpose(w, (1, 0)), b.transpose(x, (1, 0)))
                y = b.transpose(y, (1, 0))
            for _ in range(2):
                e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, y, b.reduce(ReduceFn.MAX, y, (1,))))
                y = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))
            return y

        return build

    usual, turned = (program([(16, 5), (5, 48)], F32, softmax(t)) for t in (False, True))
    for seed in range(16):
        test = Verification(usual, turned, 0, VerifyOptions(seed=seed), seed, None, {})
        assert test.tests(rounding=True) == (True, True), f"seed {seed}: {test.evidence[-1]}"


def test_few_large_errors_decide_about_no_row_and_typical_ones_do() -> None:
    """Errors whose sizes are spread over orders of magnitude, equal on both sides except for
    chance."""
    refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        exact = rng.standard_normal((32, 24 * 64)) + 4.0

        def errors(rng: np.random.Generator = rng) -> np.ndarray:
            sizes = np.repeat(np.exp(1.5 * rng.standard_normal((32, 24))), 64, axis=1)
            return 1e-3 * sizes * rng.standard_normal(sizes.shape)

        reference, own = exact + errors(), errors()
        names = F32, "", "", 24
        refused += not compare_rows(exact, reference, exact + own, *names).holds
        own[5] *= 8.0
        assert not compare_rows(exact, reference, exact + own, *names).holds
    assert refused <= 1


def test_what_the_reference_does_not_give_is_not_asked_for() -> None:
    exact = rows(1.0)
    reference = F16.round(exact)
    candidate = reference.copy()
    candidate[2] = np.nan
    assert not compare_rows(exact, reference, candidate, F16, "", "").holds
    reference[2] = np.inf
    assert compare_rows(exact, reference, candidate, F16, "", "").holds
