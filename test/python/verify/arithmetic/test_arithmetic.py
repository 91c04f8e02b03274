"""Constants, primes and the vectorised finite field against Python's integers."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.field import FieldPair, Modulus
from mirage.verify.arithmetic.primes import draw, is_prime

F32 = DType.F32


def test_primes():
    assert [n for n in range(60) if is_prime(n)] == [
        2,
        3,
        5,
        7,
        11,
        13,
        17,
        19,
        23,
        29,
        31,
        37,
        41,
        43,
        47,
        53,
        59,
    ]
    assert not is_prime(3215031751)
    assert is_prime((1 << 61) - 1)
    rng = random.Random(1)
    for bits, below in ((22, 1 << 25), (61, None)):
        primes = draw(rng, bits, below)
        assert is_prime(primes.p)
        assert is_prime(primes.q)
        assert (primes.p - 1) % primes.q == 0
        assert primes.w != 1
        assert pow(primes.w, primes.q, primes.p) == 1
        residues = primes.residues(Fraction(-7, 12))
        for x, m in zip(residues, (primes.p, primes.q), strict=True):
            assert (12 * x + 7) % m == 0
        assert primes.residues(Fraction(1, 5 * primes.q)) is None


def test_draws_differ():
    rng = random.Random(2)
    assert len({draw(rng, 22, 1 << 25).p for _ in range(8)}) > 6


P = 33554393  # the largest prime below 2^25: the hardest case for exactness


@pytest.mark.parametrize("count", [1, 4, 40])
def test_residues_of_few_and_of_many(count: int) -> None:
    """They are computed differently; NaN stays NaN."""
    m = Modulus(P)
    largest = (1 << 52) - 1
    near = [n * P + k for n in (0, 1, 2, P - 1, P, (largest // P) - 1) for k in (-1, 0, 1)]
    integers = [x for n in (*near, largest) for x in (n, -n)]
    drawn = np.random.default_rng(0).integers(-largest, largest, 3000).tolist()
    for every in (integers[:count], [*integers, *drawn][-count * 100 :]):
        found = m.reduce(np.array(every, float))
        np.testing.assert_array_equal(found, [x % P for x in every])
    with np.errstate(invalid="ignore"):
        for nothing in (np.full(count, np.nan), np.full(count * 100, -np.inf)):
            assert np.isnan(m.reduce(nothing)).all()
    assert m.reduce(np.array(float(P + 1))).shape == ()
    assert m.add(np.float64(P - 1), np.float64(2)).shape == ()


def test_modulus_is_exact_at_the_edges():
    m = Modulus(P)
    edge = np.array([0.0, 1.0, P - 1.0, P - 2.0, (P - 1) // 2])
    a, b = np.meshgrid(edge, edge)
    for ours, python in ((m.add, int.__add__), (m.sub, int.__sub__), (m.mul, int.__mul__)):
        want = [[python(int(x), int(y)) % P for x, y in zip(r, s)] for r, s in zip(a, b)]
        np.testing.assert_array_equal(ours(a, b), want)
    with pytest.raises(ValueError, match="between 3 and 2\\^25"):
        Modulus(1 << 25)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 5),
    st.sampled_from([1, 2, 37, 8192, 8193, 20000]),
    st.integers(1, 4),
    st.integers(0, 2**32),
)
def test_matmul_is_exact(rows, inner, columns, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(P - 5, P, size=(rows, inner))
    b = rng.integers(0, P, size=(inner, columns))
    want = (a.astype(object) @ b.astype(object)) % P
    np.testing.assert_array_equal(
        Modulus(P).matmul(a.astype(float), b.astype(float)), want.astype(float)
    )


@pytest.fixture
def domain():
    return FieldPair(draw(random.Random(3), 22, 1 << 25), 7)


def values(domain, shape, seed=0):
    return domain.random(np.random.default_rng(seed), shape)


def test_exp_turns_sums_into_products(domain):
    a, b = values(domain, (100,)), values(domain, (100,), 1)
    left = domain.unary(UnaryFn.EXP, domain.binary(BinaryFn.ADD, a, b, F32), F32)
    right = domain.binary(
        BinaryFn.MUL, domain.unary(UnaryFn.EXP, a, F32), domain.unary(UnaryFn.EXP, b, F32), F32
    )
    assert len(left) == 1
    assert domain.equal(left, right).all()
    want = [pow(domain.primes.w, int(x), domain.primes.p) for x in a[1]]
    np.testing.assert_array_equal(domain.unary(UnaryFn.EXP, a, F32)[0], want)


def test_division_undoes_multiplication_and_zero_is_undefined(domain):
    a, b = values(domain, (50,)), values(domain, (50,), 1)
    back = domain.binary(BinaryFn.DIV, domain.binary(BinaryFn.MUL, a, b, F32), b, F32)
    assert domain.equal(a, back).all()
    zero = domain.binary(BinaryFn.SUB, a, a, F32)
    assert np.isnan(domain.binary(BinaryFn.DIV, a, zero, F32)[0]).all()


def test_maximum_is_a_semilattice_with_bottom(domain):
    a, b, c = (values(domain, (200,), i) for i in range(3))

    def join(x, y):
        return domain.binary(BinaryFn.MAX, x, y, F32)

    assert domain.equal(join(a, b), join(b, a)).all()
    assert domain.equal(join(a, join(b, c)), join(join(a, b), c)).all()
    assert domain.equal(join(a, a), a).all()
    bottom = domain.constant(-math.inf, F32)
    assert domain.equal(join(a, bottom), a).all()
    stacked = tuple(np.stack(p) for p in zip(a, b, c))
    assert domain.equal(
        tuple(p[0] for p in domain.reduce(ReduceFn.MAX, stacked, (0,), F32)), join(a, join(b, c))
    ).all()
    picks_first = (join(a, b)[0] == a[0]).mean()
    assert 0.3 < picks_first < 0.7  # the order is random


def test_bottom_vanishes_under_exp_and_undefined_spreads(domain):
    bottom = domain.constant(-math.inf, F32)
    a = values(domain, (3,))
    assert (
        domain.unary(UnaryFn.EXP, domain.binary(BinaryFn.SUB, bottom, a, F32), F32)[0] == 0.0
    ).all()
    assert np.isnan(domain.binary(BinaryFn.SUB, bottom, bottom, F32)[0])
    assert np.isnan(domain.binary(BinaryFn.MUL, bottom, a, F32)[0]).all()
    both = tuple(np.concatenate([p, [-np.inf]]) for p in a)
    for plane in domain.reduce(ReduceFn.SUM, both, (0,), F32):
        np.testing.assert_array_equal(plane, [-np.inf])
    spoilt = tuple(np.concatenate([p, [np.nan]]) for p in both)
    assert np.isnan(domain.reduce(ReduceFn.SUM, spoilt, (0,), F32)[0]).all()


def test_uninterpreted_functions_are_functions_and_nothing_more(domain):
    a = values(domain, (1000,))
    first, again = (domain.unary(UnaryFn.SQRT, a, F32) for _ in range(2))
    assert domain.equal(first, again).all()
    assert not domain.equal(first, domain.unary(UnaryFn.SIGMOID, a, F32)).any()
    square = domain.binary(BinaryFn.MUL, first, first, F32)
    assert not domain.equal(square, a).any()
    other = values(domain, (1000,), 1)
    assert not domain.equal(first, domain.unary(UnaryFn.SQRT, other, F32)).any()


@pytest.mark.parametrize("fn", list(ReduceFn))
@pytest.mark.parametrize(
    ("shape", "dims"), [((0, 5), (1,)), ((3, 0, 4), (2,)), ((0, 2, 3), (1, 2))]
)
def test_reductions_of_no_rows(domain, fn, shape, dims):
    """A sample may need nothing of a value: no rows, although each row has elements."""
    x = domain.integers(np.zeros(shape))
    result = domain.reduce(fn, x, dims, DType.F32)
    expected = tuple(1 if d in dims else n for d, n in enumerate(shape))
    assert all(plane.shape == expected for plane in result)


def test_a_maximum_is_that_of_its_row(domain):
    """For any order of the reduced dimensions among the others."""
    rng = np.random.default_rng(0)
    x = domain.random(rng, (2, 3, 4))
    result = domain.reduce(ReduceFn.MAX, x, (0, 2), DType.F32)
    for j in range(3):
        best = tuple(plane[0, j, 0].reshape(1) for plane in x)
        for i in range(2):
            for k in range(4):
                other = tuple(plane[i, j, k].reshape(1) for plane in x)
                best = domain.binary(BinaryFn.MAX, best, other, DType.F32)
        assert all(r[0, j, 0] == b[0] for r, b in zip(result, best, strict=True))
