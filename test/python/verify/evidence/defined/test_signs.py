"""Rules for signs hold for numbers, and are precise enough for proofs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from mirage.semantics.scalar import BINARY, REDUCE, UNARY, BinaryFn, RealDomain, ReduceFn, UnaryFn
from mirage.verify.evidence.defined.signs import (
    ANY,
    LEAST,
    NEG,
    POS,
    ZERO,
    of_binary,
    of_number,
    of_power,
    of_product,
    of_reduction,
    of_unary,
)
from thorough import some_of

NUMBERS = {
    NEG: (-1000.0, -2.0, -0.5, -0.001), ZERO: (0.0,), POS: (0.001, 0.5, 2.0, 30.0),
    LEAST: (float("-inf"),),
}  # fmt: skip
SETS = [s for s in range(1, 16) if not s & LEAST or s & NEG]
"""Minus infinity counts as negative too."""


def members(signs: int) -> list[float]:
    return [x for bit, numbers in NUMBERS.items() if signs & bit for x in numbers]


def code(signs: int) -> np.ndarray:
    return np.array(signs, np.uint8)


def allows(signs: np.ndarray, value: float) -> bool:
    """Undefined values do not count here; plus infinity stands for overflow."""
    return bool(np.isnan(value)) or (int(of_number(value)) & ~int(signs)) == 0


@pytest.mark.parametrize("fn", list(UnaryFn))
def test_unary_rules_hold(fn: UnaryFn) -> None:
    info = UNARY[fn]
    for signs in SETS:
        found = of_unary(fn, code(signs))
        for x in members(signs):
            if info.logic and x not in (0.0, 1.0):
                continue
            partial = info.domain is not RealDomain.ALL and fn is not UnaryFn.BIAS
            if partial and not info.domain.contains(x):
                continue
            with np.errstate(all="ignore"):
                value = float(info.evaluate(np.asarray(x)))
            if value == 0.0 and x < -100.0 and np.isfinite(x):
                continue  # exponentials underflow
            assert allows(found, value), (fn, signs, x, value, found)


@pytest.mark.parametrize("fn", some_of([fn for fn in BinaryFn if fn is not BinaryFn.POW], every=3))
def test_binary_rules_hold(fn: BinaryFn) -> None:
    """The rules for powers, which are separate, are tested below."""
    info = BINARY[fn]
    for first, second in itertools.product(SETS, SETS):
        found = of_binary(fn, code(first), code(second))
        for x, y in itertools.product(members(first), members(second)):
            if fn is BinaryFn.DIV and y == 0.0:
                continue
            with np.errstate(all="ignore"):
                value = float(info.evaluate(np.asarray(x), np.asarray(y)))
            assert allows(found, value), (fn, first, second, x, y, value, found)


@pytest.mark.parametrize("exponent", [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
def test_powers(exponent: float) -> None:
    for signs in SETS:
        found = of_power(code(signs), np.asarray(exponent))
        for x in members(signs):
            if x == 0.0 and exponent < 0:
                continue
            with np.errstate(all="ignore"):
                value = float(np.power(x, exponent))
            assert exponent == 0.0 or allows(found, value), (signs, x, exponent)


@pytest.mark.parametrize("fn", some_of(list(ReduceFn), every=2))
def test_reductions_hold(fn: ReduceFn) -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 5):
        for _ in range(300):
            signs = rng.choice(SETS, count).astype(np.uint8)
            found = of_reduction(fn, signs, (0,))[0]
            for _ in range(10):
                x = np.array([rng.choice(members(int(s))) for s in signs])
                with np.errstate(all="ignore"):
                    assert allows(found, float(REDUCE[fn](x))), (signs, x)


def test_products_hold() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        a, b = (rng.choice(SETS[:7], s).astype(np.uint8) for s in ((2, 3), (3, 2)))
        found = of_product(a, b)
        for _ in range(10):
            x, y = (np.vectorize(lambda s: rng.choice(members(int(s))))(m) for m in (a, b))
            z = x @ y
            for i, j in np.ndindex(2, 2):
                if abs(z[i, j]) > 1e-9:
                    assert allows(found[i, j], float(z[i, j]))


@pytest.mark.parametrize("code", SETS)
def test_products_with_what_is_the_same_everywhere(code: int) -> None:
    """Inputs are such operands, which may have any sign: each element is multiplied by all of
    them."""
    a = np.random.default_rng(2).choice(SETS, (2, 4, 3)).astype(np.uint8)
    b = np.full((3, 5), code, np.uint8)
    single = (of_product(a, b[:, :1]), of_product(a, np.tile(b[:, :1], (1, 2)))[..., 1:])
    assert of_product(a, b).shape == (2, 4, 5)
    assert (of_product(a, b) == single[0]).all()
    assert (single[0] == single[1]).all()
    turned = of_product(b.T, a.transpose(0, 2, 1))
    assert (turned == of_product(a, b).transpose(0, 2, 1)).all()


def test_what_proofs_need() -> None:
    """Exponentials are positive, and so are their sums; squares are not negative, and with eps
    they are positive."""
    exponential = of_unary(UnaryFn.EXP, code(ANY))
    assert int(exponential) == POS
    assert int(of_reduction(ReduceFn.SUM, np.full(5, exponential), (0,))[0]) == POS
    masked = of_unary(UnaryFn.EXP, code(NEG | LEAST))
    assert int(masked) == ZERO | POS
    some = np.array([int(exponential), int(masked), int(masked)], np.uint8)
    assert int(of_reduction(ReduceFn.SUM, some, (0,))[0]) == POS
    assert int(of_reduction(ReduceFn.SUM, some[1:], (0,))[0]) == ZERO | POS
    squares = of_reduction(ReduceFn.SUM, np.full(3, of_unary(UnaryFn.SQUARE, code(ANY))), (0,))
    assert int(squares[0]) == ZERO | POS
    assert int(of_binary(BinaryFn.ADD, squares[0], of_number(1e-6))) == POS
    assert int(of_binary(BinaryFn.MUL, squares[0], of_number(1 / 64))) == ZERO | POS
    assert int(of_binary(BinaryFn.MAX, code(ANY), of_number(1e-6))) == POS
    assert int(of_unary(UnaryFn.SIGMOID, code(ANY))) == POS
