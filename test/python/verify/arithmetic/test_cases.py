"""Signs that go together, quotients of whole numbers, and proofs case by case."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.arithmetic.cases import Cases
from mirage.verify.arithmetic.linear_signs import Form, can_be
from mirage.verify.arithmetic.whole_numbers import quotient
from mirage.verify.evidence.proofs.proof_by_cases import prove_by_cases

X, Y, ONE = (0, 1), (0, 2), (0, 0)
NUMBERS = st.fractions(-4, 4, max_denominator=6)


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3, st.sampled_from((-1, 0, 1))), max_size=5))
@settings(max_examples=60, deadline=None)
def test_what_there_is_can_be(rows: list[tuple[int, int, int, int]]) -> None:
    """Possible signs of numbers are never treated as impossible."""
    signed = [({X: Fraction(a), Y: Fraction(b), ONE: Fraction(c)}, s) for a, b, c, s in rows]
    x, y = np.meshgrid(np.arange(-30, 31), np.arange(-30, 31))  # in sixths
    there = np.ones(x.shape, bool)
    for a, b, c, s in rows:
        there &= np.sign(a * x + b * y + 6 * c) == s
    assert can_be(signed) or not there.any()


FORMS = st.lists(
    st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 3)), NUMBERS), max_size=7
)


@given(FORMS, st.lists(NUMBERS, min_size=12, max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_signs_at_a_point_can_be(forms: list[Form], point: list[Fraction]) -> None:
    at = dict(zip(itertools.product(range(3), range(4)), point, strict=True)) | {ONE: Fraction(1)}
    values = [sum((c * at[t] for t, c in form.items()), Fraction(0)) for form in forms]
    assert can_be([(f, (v > 0) - (v < 0)) for f, v in zip(forms, values, strict=True)])


@given(FORMS.filter(bool), st.data())
@settings(max_examples=60, deadline=None)
def test_a_sum_has_a_sign_of_what_is_added(forms: list[Form], data: st.DataObject) -> None:
    """A sum of positive, zero and at least one positive number cannot be negative or zero."""
    signs = [data.draw(st.integers(0, 1)) for _ in forms]
    signs[0] = 1
    total: dict[tuple[int, int], Fraction] = {}
    for form, sign in zip(forms, signs, strict=True):
        factor = data.draw(NUMBERS.filter(lambda c: c > 0)) if sign else data.draw(NUMBERS)
        for term, c in form.items():
            total[term] = total.get(term, Fraction(0)) + factor * c
    for sign in (0, -1):
        assert not can_be([*zip(forms, signs, strict=True), (total, sign)])


def test_what_cannot_be() -> None:
    x, y, up = {X: Fraction(1)}, {Y: Fraction(1)}, {X: Fraction(1), ONE: Fraction(-1)}
    both = {X: Fraction(1), Y: Fraction(-1)}
    assert not can_be([(x, -1), (up, 1)])
    assert not can_be([(x, 1), (y, -1), (both, 0)])
    assert can_be([(x, 1), (y, 1), (both, -1)])
    assert can_be([(x, 0), (up, -1)])
    assert not can_be([(x, 0), (up, 0)])


@given(
    st.dictionaries(st.sampled_from((X, Y, ONE)), st.integers(-40, 40)), st.integers(1, 12),
    st.integers(-50, 50), st.integers(-50, 50),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_quotients_are_what_they_were(
    a: dict[tuple[int, int], int], n: int, x: int, y: int
) -> None:
    def value(form: dict[tuple[int, int], int]) -> int:
        return sum(c * {X: x, Y: y, ONE: 1}[t] for t, c in form.items())

    found = quotient(a, n)
    rest = value(dict(found.rest)) // found.by
    assert value(dict(found.whole)) + found.sign * rest == value(a) // n


Build = Callable[[Builder, Value, Value], Value]


def program(build: Build, shape: tuple[int, ...] = (3, 5)) -> KernelGraph:
    inputs = tuple(Value(TensorType(shape, DType.F32)) for _ in range(2))
    b = Builder()
    y = build(b, *inputs)
    return KernelGraph("p", inputs, tuple(b.ops), (y,))


def choice(b: Builder, p: Value, x: Value, y: Value) -> Value:
    kept = b.binary(BinaryFn.KEEP, p, x)
    return b.binary(BinaryFn.ADD, kept, b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, p), y))


def below(b: Builder, fn: BinaryFn, x: Value, y: Value) -> Value:
    return choice(b, b.binary(fn, x, y), x, y)


def test_a_choice_is_an_extremum_and_no_other() -> None:
    least = program(lambda b, x, y: b.binary(BinaryFn.MIN, x, y))
    for fn in (BinaryFn.LT, BinaryFn.LE):
        chosen = program(lambda b, x, y, fn=fn: below(b, fn, x, y))
        assert prove_by_cases(least, chosen, {}).holds
        turned = program(lambda b, x, y, fn=fn: below(b, fn, y, x))
        assert prove_by_cases(least, turned, {}).holds
        most = program(lambda b, x, y: b.binary(BinaryFn.MAX, x, y))
        assert not prove_by_cases(most, chosen, {}).holds


def step(fn: BinaryFn) -> KernelGraph:
    def build(b: Builder, x: Value, y: Value) -> Value:
        return choice(b, b.binary(fn, x, b.constant(1.0)), y, b.binary(BinaryFn.MUL, y, y))

    return program(build)


def test_where_a_comparison_ends_matters() -> None:
    assert prove_by_cases(step(BinaryFn.LT), step(BinaryFn.LT), {}).holds
    assert not prove_by_cases(step(BinaryFn.LT), step(BinaryFn.LE), {}).holds


def test_what_is_equal_is_put_in_place() -> None:
    """Where x is y, x - y is zero."""

    def difference(b: Builder, x: Value, y: Value) -> Value:
        return choice(b, b.binary(BinaryFn.EQ, x, y), b.binary(BinaryFn.SUB, x, y), x)

    def nothing(b: Builder, x: Value, y: Value) -> Value:
        return b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, b.binary(BinaryFn.EQ, x, y)), x)

    assert prove_by_cases(program(difference), program(nothing), {}).holds


def test_what_is_known_of_signs() -> None:
    """``max(x, -1)`` is ``x`` if this is not negative; ``max(y / x, 1) x`` is ``max(x, y)``."""
    limited = program(lambda b, x, y: b.binary(BinaryFn.MAX, x, b.constant(-1.0)))
    itself = program(lambda b, x, y: b.binary(BinaryFn.ADD, x, b.constant(0.0)))
    assert prove_by_cases(limited, itself, {}, {0}).holds
    assert not prove_by_cases(limited, itself, {}, {1}).holds

    def of_quotient(b: Builder, x: Value, y: Value) -> Value:
        ratio = b.binary(BinaryFn.MAX, b.binary(BinaryFn.DIV, y, x), b.constant(1.0))
        return b.binary(BinaryFn.MUL, ratio, x)

    larger = program(lambda b, x, y: b.binary(BinaryFn.MAX, x, y))
    assert prove_by_cases(program(of_quotient), larger, {}, (), {0}).holds
    for known in ((), {1}):
        assert not prove_by_cases(program(of_quotient), larger, {}, (), known).holds


def drawn(seed: int, change: bool) -> KernelGraph:
    """Random maxima, magnitudes and choices; with ``change``, one of them differs."""
    own = random.Random(seed)

    def made(b: Builder, x: Value, y: Value) -> Value:
        values = [x, y, b.binary(BinaryFn.ADD, x, b.constant(1.0))]
        for number in range(3):
            one, other = own.sample(values, 2)
            kind = (own.randrange(4) + (change and number == 2)) % 4
            fn = own.choice((BinaryFn.LT, BinaryFn.LE))
            if kind == 0:
                values.append(b.binary(BinaryFn.MAX, one, other))
            elif kind == 1:
                values.append(b.binary(BinaryFn.ADD, one, b.unary(UnaryFn.ABS, other)))
            elif kind == 2:
                values.append(below(b, fn, one, other))
            else:
                values.append(b.binary(BinaryFn.SUB, one, other))
        return values[-1]

    return program(made, (49,))


@pytest.mark.parametrize("seed", range(12))
def test_random_choices(seed: int) -> None:
    """A program equals itself, and none is proved that differs at a point of a grid."""
    first, second = drawn(seed, False), drawn(seed, True)
    assert prove_by_cases(first, first, {}).holds
    grid = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]
    x, y = (np.asarray(v) for v in zip(*itertools.product(grid, grid), strict=True))
    outputs = [evaluate(g, Float64(), [(x,), (y,)])[0][0] for g in (first, second)]
    if prove_by_cases(first, second, {}).holds:
        np.testing.assert_array_equal(*outputs)


def test_outputs_are_counted_before_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that is too large is detected before time is spent on a smaller one."""

    def graph(n: int) -> KernelGraph:
        x, b = Value(TensorType((4, n), DType.F32)), Builder()
        row, table = b.reduce(ReduceFn.MAX, x, (1,)), b.unary(UnaryFn.RELU, x)
        return KernelGraph("p", (x,), tuple(b.ops), (row, table))

    assert prove_by_cases(graph(2), graph(2), {}).holds
    monkeypatch.setattr(Cases, "sign", lambda *_: pytest.fail("a sign is looked at"))
    assert prove_by_cases(graph(64), graph(64), {}).text == "256 elements, limit 64"


def test_the_verdict_says_so() -> None:
    def huber(b: Builder, x: Value, y: Value) -> Value:
        d = b.unary(UnaryFn.ABS, b.binary(BinaryFn.SUB, x, y))
        low = b.binary(BinaryFn.MIN, d, b.constant(1.0))
        rest = b.binary(BinaryFn.SUB, d, b.binary(BinaryFn.MUL, low, b.constant(0.5)))
        return b.binary(BinaryFn.MUL, low, rest)

    def written(b: Builder, x: Value, y: Value) -> Value:
        d = b.binary(BinaryFn.SUB, x, y)
        size = b.unary(UnaryFn.ABS, d)
        near = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, d, d), b.constant(0.5))
        far = b.binary(BinaryFn.SUB, size, b.constant(0.5))
        return choice(b, b.binary(BinaryFn.LT, size, b.constant(1.0)), near, far)

    verdict = verify(program(huber), program(written), VerifyOptions(seed=3))
    assert verdict.kind is Kind.PROVED
    assert verdict.accepted
