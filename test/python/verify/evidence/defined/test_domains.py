"""Candidates that are equal to the reference where they are defined, but undefined where it is
defined."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from mirage.verify.evidence.defined.domains import Defined
from mirage.verify.evidence.defined.signs import NEG, POS, ZERO
from mirage.verify.pair.examine import examine

OPTIONS = VerifyOptions(seed=5)
Write = Callable[[Builder, Value, Value], Value]
ADD, SUB, MUL, DIV, MAX = (
    BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.DIV, BinaryFn.MAX
)  # fmt: skip
SQRT, RSQRT, SQUARE, EXP, LOG, RELU, INVERSE = (
    UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.SQUARE, UnaryFn.EXP, UnaryFn.LOG, UnaryFn.RELU,
    UnaryFn.RECIPROCAL,
)  # fmt: skip


def program(write: Write) -> KernelGraph:
    """A program of x [6, 16] and y [16, 16]."""
    x, y = (graphs.tensor(n, 16, dtype=DType.F32) for n in (6, 16))
    b = Builder()
    result = write(b, x, y)
    return KernelGraph("p", (x, y), tuple(b.ops), (result,))


def compared(reference: Write, candidate: Write) -> Verdict:
    return verify(program(reference), program(candidate), OPTIONS)


def total(b: Builder, x: Value) -> Value:
    return b.reduce(ReduceFn.SUM, x, (1,))


def mean_square(b: Builder, x: Value, eps: float) -> Value:
    mean = b.binary(MUL, total(b, b.unary(SQUARE, x)), b.constant(Fraction(1, 16)))
    return b.binary(ADD, mean, b.constant(eps)) if eps else mean


def product(b: Builder, x: Value, y: Value) -> Value:
    return b.matmul(x, y)


def scaled(scale: Callable[[Builder, Value], Value]) -> Write:
    """(x s) y / s with a number s for each row."""

    def write(b: Builder, x: Value, y: Value) -> Value:
        s = scale(b, x)
        return b.binary(DIV, b.matmul(b.binary(MUL, x, s), y), s)

    return write


SCALES: dict[str, tuple[Callable[[Builder, Value], Value], bool]] = {
    "a sum": (total, False),
    "a sum of what is not negative": (lambda b, x: total(b, b.unary(RELU, x)), False),
    "a sum of squares": (lambda b, x: total(b, b.unary(SQUARE, x)), False),
    "a sum of magnitudes": (lambda b, x: total(b, b.unary(UnaryFn.ABS, x)), False),
    "squares and eps": (lambda b, x: mean_square(b, x, 1e-5), True),
    "squares less eps": (lambda b, x: mean_square(b, x, -1e-5), False),
    "a root with eps": (lambda b, x: b.unary(SQRT, mean_square(b, x, 1e-5)), True),
    "exponentials": (lambda b, x: total(b, b.unary(EXP, x)), True),
    "exponentials less one": (
        lambda b, x: total(b, b.binary(SUB, b.unary(EXP, x), b.constant(1.0))), False,
    ),
    "a maximum": (lambda b, x: b.reduce(ReduceFn.MAX, x, (1,)), False),
    "at least something": (
        lambda b, x: b.binary(MAX, b.reduce(ReduceFn.MAX, x, (1,)), b.constant(0.25)), True,
    ),
    "at least zero": (
        lambda b, x: b.binary(MAX, b.reduce(ReduceFn.MAX, x, (1,)), b.constant(0.0)), False,
    ),
    "a number": (lambda b, x: b.constant(3.0), True),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALES)
def test_scaled_and_unscaled(name: str) -> None:
    scale, right = SCALES[name]
    verdict = compared(product, scaled(scale))
    assert verdict.kind is not Kind.REFUTED, verdict
    assert not verdict.equivalent or verdict.defined is right, verdict
    if not right:
        assert not verdict.accepted


def times(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(MUL, x, total(b, x))


ADDED: dict[str, tuple[Write, Write]] = {
    "a quotient": (
        times,
        lambda b, x, y: b.binary(
            DIV, b.binary(MUL, b.unary(SQUARE, x), total(b, x)), x
        ),
    ),
    "a root times zero": (
        lambda b, x, y: b.unary(EXP, x),
        lambda b, x, y: b.binary(
            ADD,
            b.unary(EXP, x),
            b.binary(
                MUL,
                b.constant(0.0),
                b.unary(SQRT, b.binary(ADD, x, b.constant(1000.0))),
            ),
        ),
    ),
    "a logarithm less itself": (
        lambda b, x, y: b.unary(EXP, x),
        lambda b, x, y: b.binary(
            SUB, b.binary(ADD, b.unary(EXP, x), b.unary(LOG, x)), b.unary(LOG, x)
        ),
    ),
    "the square of a root": (
        lambda b, x, y: x,
        lambda b, x, y: b.unary(SQUARE, b.unary(SQRT, x)),
    ),
    "a root of a variance without eps": (
        lambda b, x, y: b.matmul(x, y),
        lambda b, x, y: b.binary(
            MUL,
            b.matmul(b.binary(MUL, x, b.unary(RSQRT, mean_square(b, x, 0.0))), y),
            b.unary(SQRT, mean_square(b, x, 0.0)),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_what_candidates_add(name: str) -> None:
    verdict = compared(*ADDED[name])
    assert not verdict.accepted, verdict
    assert verdict.kind is not Kind.PROVED or verdict.defined is False
    assert compared(*(ADDED[name][0],) * 2).defined is not False


AS_THE_REFERENCE: dict[str, tuple[Write, Write]] = {
    "a reciprocal": (
        lambda b, x, y: b.binary(DIV, x, total(b, x)),
        lambda b, x, y: b.binary(MUL, x, b.unary(INVERSE, total(b, x))),
    ),
    "after the product": (
        lambda b, x, y: b.matmul(b.binary(DIV, x, total(b, x)), y),
        lambda b, x, y: b.binary(DIV, b.matmul(x, y), total(b, x)),
    ),
    "a mean for a sum": (
        lambda b, x, y: b.binary(
            DIV, x, b.binary(MUL, total(b, x), b.constant(Fraction(1, 16)))
        ),
        lambda b, x, y: b.binary(
            DIV, b.binary(MUL, x, b.constant(16.0)), total(b, x)
        ),
    ),
    "a variance by its moments": (
        lambda b, x, y: b.unary(RSQRT, variance(b, x)),
        lambda b, x, y: b.unary(INVERSE, b.unary(SQRT, moments(b, x))),
    ),
}  # fmt: skip


def mean(b: Builder, x: Value) -> Value:
    return b.binary(MUL, total(b, x), b.constant(Fraction(1, 16)))


def variance(b: Builder, x: Value) -> Value:
    apart = b.unary(SQUARE, b.binary(SUB, x, mean(b, x)))
    return b.binary(ADD, mean(b, apart), b.constant(1e-5))


def moments(b: Builder, x: Value) -> Value:
    less = b.binary(SUB, mean(b, b.unary(SQUARE, x)), b.unary(SQUARE, mean(b, x)))
    return b.binary(ADD, less, b.constant(1e-5))


@pytest.mark.parametrize("name", AS_THE_REFERENCE)
def test_arguments_of_the_reference_are_in_order(name: str) -> None:
    verdict = compared(*AS_THE_REFERENCE[name])
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict


def test_another_argument_of_the_same_form_is_not() -> None:
    """The reference divides by the sums of rows, the candidate also by those of other rows."""

    def reference(b: Builder, x: Value, y: Value) -> Value:
        return b.binary(DIV, x, total(b, x))

    def candidate(b: Builder, x: Value, y: Value) -> Value:
        other = total(b, b.unary(SQUARE, x))
        return b.binary(DIV, b.binary(DIV, b.binary(MUL, x, other), total(b, x)), other)

    assert compared(reference, candidate).defined is False


def test_numbers_of_16_bits_do_not_meet_by_chance() -> None:
    """The reference divides by one input, the candidate by another of the same few numbers."""

    def quotient(square: bool) -> KernelGraph:
        x, y = (graphs.tensor(64, 512, dtype=DType.F16) for _ in range(2))
        b = Builder()
        result = b.binary(DIV, b.unary(SQUARE, x) if square else x, y)
        result = b.binary(DIV, result, x) if square else result
        return KernelGraph("q", (x, y), tuple(b.ops), (result,))

    verdict = verify(quotient(False), quotient(True), OPTIONS)
    assert not verdict.accepted
    assert verdict.defined is False, verdict
    assert verify(quotient(False), quotient(False), OPTIONS).defined


def test_counts_do_not_settle_anything() -> None:
    """Sums of truth values are the same small numbers in different programs."""

    def pooled(twice: bool) -> KernelGraph:
        x = graphs.tensor(8, 32, dtype=DType.F32)
        first, second = (graphs.tensor(8, 32, dtype=DType.I1) for _ in range(2))
        b = Builder()
        counts = [b.reduce(ReduceFn.SUM, b.cast(m, DType.F32), (1,)) for m in (first, second)]
        result = b.binary(DIV, x, counts[0])
        if twice:
            result = b.binary(DIV, b.binary(MUL, result, counts[1]), counts[1])
        else:
            result = b.binary(ADD, result, b.binary(MUL, counts[1], b.constant(0.0)))
        return KernelGraph("p", (x, first, second), tuple(b.ops), (result,))

    assert not verify(pooled(False), pooled(True), OPTIONS).accepted


def test_the_same_count_is_in_order() -> None:
    def pooled(inverse: bool) -> KernelGraph:
        x, mask = graphs.tensor(8, 32, dtype=DType.F32), graphs.tensor(8, 32, dtype=DType.I1)
        b = Builder()
        count = b.reduce(ReduceFn.SUM, b.cast(mask, DType.F32), (1,))
        kept = total(b, b.binary(BinaryFn.KEEP, mask, x))
        if inverse:
            result = b.binary(MUL, kept, b.unary(INVERSE, count))
        else:
            result = b.binary(DIV, kept, count)
        return KernelGraph("p", (x, mask), tuple(b.ops), (result,))

    verdict = verify(pooled(False), pooled(True), OPTIONS)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict


def by(*divisors: Value) -> Callable[[Builder, Value], Value]:
    """A quotient by the product of these."""

    def write(b: Builder, x: Value) -> Value:
        product = divisors[0]
        for d in divisors[1:]:
            product = b.binary(MUL, product, d)
        return b.binary(DIV, x, product)

    return write


def half(b: Builder, x: Value, first: int) -> Value:
    """Eight columns."""
    return b.slice(x, (0, first), (x.shape[0], 8))


FACTORS: dict[str, tuple[Write, Write, bool]] = {
    "one factor after the other": (
        lambda b, x, y: by(total(b, x), x)(b, b.constant(1.0)),
        lambda b, x, y: by(x)(b, by(total(b, x))(b, b.constant(1.0))),
        True,
    ),
    "factors together": (
        lambda b, x, y: by(x)(b, by(total(b, x))(b, b.constant(1.0))),
        lambda b, x, y: by(total(b, x), x)(b, b.constant(1.0)),
        True,
    ),
    "what a magnitude is of": (
        lambda b, x, y: by(b.unary(UnaryFn.ABS, total(b, x)), x)(b, b.constant(1.0)),
        lambda b, x, y: by(x)(b, by(b.unary(UnaryFn.ABS, total(b, x)))(b, b.constant(1.0))),
        True,
    ),
    "a summand": (
        lambda b, x, y: by(b.binary(ADD, total(b, x), x))(b, b.constant(1.0)),
        lambda b, x, y: by(x)(b, by(b.binary(ADD, total(b, x), x))(b, x)),
        False,
    ),
    "a factor of one side only": (
        lambda b, x, y: by(x)(b, b.constant(1.0)),
        lambda b, x, y: by(total(b, x), x)(b, total(b, x)),
        False,
    ),
    "a factor of what is not divided by": (
        lambda b, x, y: b.binary(MUL, x, total(b, x)),
        lambda b, x, y: by(x)(b, b.binary(MUL, b.unary(SQUARE, x), total(b, x))),
        False,
    ),
    "a factor of a part": (
        lambda b, x, y: b.concat(
            (by(total(b, half(b, x, 0)), half(b, x, 0))(b, b.constant(1.0)), half(b, x, 8)), 1),
        lambda b, x, y: b.concat(
            (by(total(b, half(b, x, 0)), half(b, x, 0))(b, b.constant(1.0)),
             by(half(b, x, 8))(b, b.unary(SQUARE, half(b, x, 8)))), 1),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORS)
def test_factors(name: str) -> None:
    reference, candidate, right = FACTORS[name]
    verdict = compared(reference, candidate)
    assert verdict.equivalent, verdict
    assert verdict.defined is right, verdict


@pytest.mark.parametrize("name", ["split", "split_online", "flash"])
def test_attention_divides_by_exponentials(name: str) -> None:
    pair = graphs.attention(2, 13, 61, 16, splits=2, steps=3, row_blocks=2)
    verdict = verify(pair.reference, pair.candidates[name], OPTIONS)
    assert verdict.equivalent
    assert verdict.defined, verdict


def test_the_verdict_says_so() -> None:
    verdict = compared(*ADDED["a quotient"])
    assert (
        str(verdict).splitlines()[0].endswith("it is not defined everywhere where the reference is")
    )
    assert verdict.to_json()["defined"] is False
    assert verdict.to_json()["accepted"] is False


# ---- known contents of inputs


def counts(inverse: bool) -> KernelGraph:
    """Rows of y divided by the number of elements of windows of three that end at their columns,
    from positions."""
    position, y = graphs.tensor(16, dtype=DType.I64), graphs.tensor(4, 16, dtype=DType.F32)
    b = Builder()
    at = b.cast(position, DType.F32)
    end = b.binary(BinaryFn.MIN, b.binary(ADD, at, b.constant(2.0)), b.constant(16.0))
    count = b.binary(SUB, end, b.binary(MAX, b.binary(SUB, at, b.constant(1.0)), b.constant(0.0)))
    result = b.binary(MUL, b.unary(INVERSE, count), y) if inverse else b.binary(DIV, y, count)
    return KernelGraph("counts", (position, y), tuple(b.ops), (result,))


def test_positions_are_what_decides_where_they_are_known() -> None:
    """Counts are whole numbers, which may occur in the reference by chance: only their sign
    counts."""
    free = examine(counts(False), counts(True), OPTIONS, postpone=False)
    assert isinstance(free, Verdict)
    assert free.kind is Kind.PROVED
    assert free.defined is False
    held = {0: np.arange(16.0)}
    known = examine(counts(False), counts(True), OPTIONS, positions=held, postpone=False)
    assert isinstance(known, Verdict)
    assert known.defined
    wrong = {0: np.arange(16.0) - 9.0}  # of which some give no elements
    unsure = examine(counts(False), counts(True), OPTIONS, positions=wrong, postpone=False)
    assert isinstance(unsure, Verdict)
    assert unsure.defined is False


def test_what_roundings_leave_of_known_numbers_has_no_sign() -> None:
    """A tenth, three times, is three tenths: the rest of the difference is no valid divisor."""

    def divided(known: bool) -> KernelGraph:
        position, y = graphs.tensor(16, dtype=DType.I64), graphs.tensor(4, 16, dtype=DType.F32)
        b = Builder()
        at = b.cast(position, DType.F32)
        tenths = b.binary(MUL, at, b.constant(0.1))
        zero = b.binary(SUB, b.binary(ADD, b.binary(ADD, tenths, tenths), tenths),
                        b.binary(MUL, at, b.constant(0.3)))  # fmt: skip
        x = b.binary(DIV, b.binary(MUL, y, zero), zero) if known else y
        return KernelGraph("divided", (position, y), tuple(b.ops), (x,))

    found = examine(
        divided(False), divided(True), OPTIONS, positions={0: np.arange(1.0, 17.0)}, postpone=False
    )
    assert isinstance(found, Verdict)
    assert not found.accepted


def test_rows_that_may_be_any_have_the_signs_of_all() -> None:
    """Rows that are looked up at known places have their own signs; otherwise, they have those of
    any row."""
    no = np.zeros((2, 3), bool)
    table = (
        np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 5.0]]),
        np.array([[POS, POS, POS], [NEG, ZERO, POS]], np.uint8),
        np.array([[False, False, False], [False, True, False]]),
        no,
        no,
    )
    places = np.array([0.0, 1.0, 0.0])
    plain = np.zeros(3, bool)
    known = (places, np.full(3, ZERO | POS, np.uint8), plain, plain, plain)
    values, signs, bad, _, free = Defined().rows(table, known)
    np.testing.assert_array_equal(values, table[0][[0, 1, 0]])
    np.testing.assert_array_equal(signs, table[1][[0, 1, 0]])
    np.testing.assert_array_equal(bad, table[2][[0, 1, 0]])
    assert not free.any()
    values, signs, bad, _, free = Defined().rows(table, (*known[:4], ~plain))
    np.testing.assert_array_equal(values, table[0][[0, 1, 0]])
    np.testing.assert_array_equal(signs, np.tile([POS | NEG, POS | ZERO, POS], (3, 1)))
    np.testing.assert_array_equal(bad, np.tile([False, True, False], (3, 1)))
    assert free.all()
    outside = (np.array([0.0, 2.0, -1.0]), *known[1:])
    np.testing.assert_array_equal(Defined().rows(table, outside)[2].all(1), [False, True, True])


def logarithms(of: Callable[[Builder, Value], Value]) -> Write:
    """The logarithms of 1 + x and of 1 - x, or of functions of these, subtracted."""

    def write(b: Builder, x: Value, y: Value) -> Value:
        one = b.constant(1.0)
        above, below = (of(b, b.binary(fn, one, x)) for fn in (ADD, SUB))
        return b.binary(SUB, b.unary(LOG, above), b.unary(LOG, below))

    return write


def of_quotient(b: Builder, x: Value, y: Value) -> Value:
    one = b.constant(1.0)
    return b.unary(LOG, b.binary(DIV, b.binary(ADD, one, x), b.binary(SUB, one, x)))


def test_a_quotient_of_positive_arguments_is_positive() -> None:
    verdict = compared(logarithms(lambda b, v: v), of_quotient)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict


def test_a_quotient_of_arguments_that_are_not_zero_may_be_negative() -> None:
    def twice(b: Builder, x: Value, y: Value) -> Value:
        return b.binary(MUL, b.constant(2.0), of_quotient(b, x, y))

    verdict = compared(logarithms(lambda b, v: b.unary(SQUARE, v)), twice)
    assert not verdict.defined, verdict
