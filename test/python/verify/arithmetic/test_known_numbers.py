"""Symbolic arithmetic in which some elements are known numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BINARY as MEANING
from mirage.semantics.scalar import UNARY as MEANING_OF_ONE
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.verify.arithmetic import known_functions
from mirage.verify.arithmetic.known_functions import element_of, number_of
from mirage.verify.arithmetic.known_numbers import KnownNumbers

F32 = DType.F32
NUMBERS = [-3.0, -1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 7.0]


@pytest.fixture
def domain() -> KnownNumbers:
    return KnownNumbers(most_work=100_000)


def value(x: Planes) -> Any:
    element = x[0].item()
    number = number_of(element)
    return element if number is None else float(number)


def held(domain: KnownNumbers, x: float) -> Planes:
    return domain.held(np.array(x))


@pytest.mark.parametrize("fn", known_functions.BINARY)
def test_functions_of_two_known_numbers_are_what_they_are(
    domain: KnownNumbers, fn: BinaryFn
) -> None:
    for x in NUMBERS:
        for y in NUMBERS:
            if not y and fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
                continue
            expected = float(MEANING[fn].evaluate(np.array(x), np.array(y)))
            assert value(domain.binary(fn, held(domain, x), held(domain, y), F32)) == expected


@pytest.mark.parametrize("fn", known_functions.UNARY)
def test_functions_of_a_known_number_are_what_they_are(domain: KnownNumbers, fn: UnaryFn) -> None:
    for x in NUMBERS:
        expected = float(MEANING_OF_ONE[fn].evaluate(np.array(x)))
        assert value(domain.unary(fn, held(domain, x), F32)) == expected


def test_infinities_and_what_is_no_number() -> None:
    domain = KnownNumbers(most_work=1000)
    (x,) = domain.held(np.array([-math.inf, math.inf, math.nan, 1 / 3]))
    assert x[0] == -math.inf
    assert math.isnan(x[1])
    assert math.isnan(x[2])
    assert number_of(x[3]) == Fraction(1, 3)
    assert number_of(element_of(Fraction(1, 2))) == Fraction(1, 2)


def test_a_choice_by_a_known_number_is_one_of_two(domain: KnownNumbers) -> None:
    (x,) = domain.inputs(0, (1,))
    kept = domain.binary(BinaryFn.KEEP, domain.held(np.array([1.0])), (x,), F32)
    assert domain.same(kept[0][0], x[0])
    lost = domain.binary(BinaryFn.KEEP, held(domain, 0.0), (x,), F32)
    assert number_of(lost[0].item()) == 0
    # the operand that is not chosen may be infinite
    assert value(domain.binary(BinaryFn.KEEP, held(domain, 0.0), held(domain, -math.inf), F32)) == 0


def test_a_choice_by_an_unknown_truth_value_is_a_product_of_polynomials_only(
    domain: KnownNumbers,
) -> None:
    """The result of a division may be NaN where it is not chosen."""
    c, x = ((domain.inputs(i, (1,))[0],) for i in (0, 1))
    truth = domain.binary(BinaryFn.LT, c, held(domain, 0.0), F32)
    kept = domain.binary(BinaryFn.KEEP, truth, x, F32)
    assert domain.equal(kept, domain.binary(BinaryFn.MUL, truth, x, F32)).all()
    one_over = domain.unary(UnaryFn.RECIPROCAL, x, F32)
    root = domain.unary(UnaryFn.SQRT, x, F32)
    for y in (one_over, root):
        kept = domain.binary(BinaryFn.KEEP, truth, y, F32)
        assert not domain.equal(kept, domain.binary(BinaryFn.MUL, truth, y, F32)).any()
    kept = domain.binary(BinaryFn.KEEP, c, x, F32)  # of a number that may be 2
    assert not domain.equal(kept, domain.binary(BinaryFn.MUL, c, x, F32)).any()


def test_what_a_mask_keeps_need_not_be_kept_where_the_rest_is_minus_infinity(
    domain: KnownNumbers,
) -> None:
    (c,), x, (d,) = domain.inputs(0, (1,)), domain.inputs(1, (1,)), domain.inputs(2, (1,))
    bias, other = (domain.unary(UnaryFn.BIAS, (m,), F32) for m in (c, d))
    kept = domain.binary(BinaryFn.KEEP, (c,), x, F32)
    assert domain.equal(
        domain.binary(BinaryFn.ADD, kept, bias, F32), domain.binary(BinaryFn.ADD, x, bias, F32)
    ).all()
    assert not domain.equal(
        domain.binary(BinaryFn.ADD, kept, other, F32), domain.binary(BinaryFn.ADD, x, other, F32)
    ).any()


# ---- rows of tables


def looked_up(domain: KnownNumbers, table: Planes, place: Planes) -> Any:
    return domain.rows(table, place)[0].ravel()


def moved(domain: KnownNumbers, place: Planes, step: float, start: float) -> Planes:
    scaled = domain.binary(BinaryFn.MUL, place, held(domain, step), DType.I64)
    return domain.binary(BinaryFn.ADD, scaled, held(domain, start), DType.I64)


def test_rows_at_known_places(domain: KnownNumbers) -> None:
    (table,) = domain.inputs(0, (4, 2))
    found = looked_up(domain, (table,), domain.held(np.array([2.0, 5.0, -1.0])))
    assert domain.same(found[0], table[2, 0])
    assert domain.same(found[1], table[2, 1])
    assert all(isinstance(x, float) and math.isnan(x) for x in found[2:])


def test_places_in_other_tables_are_brought_to_one_form(domain: KnownNumbers) -> None:
    """The table is padded or reversed, or its elements are its rows."""
    (table,) = domain.inputs(0, (4, 2))
    place = domain.whole_numbers(1, (1,))
    domain.collecting = True
    looked_up(domain, (table,), place)
    domain.collecting = False
    expected = looked_up(domain, (table,), place)
    (other,) = domain.inputs(2, (1, 2))
    cases = {
        "padded": (np.concatenate((other, table)), 1.0, 1.0),
        "padded at the end": (np.concatenate((table, other)), 1.0, 0.0),
        "turned round": (table[::-1], -1.0, 3.0),
        "turned round and padded": (np.concatenate((table[::-1], other)), -1.0, 3.0),
    }
    for name, (rows, step, start) in cases.items():
        found = looked_up(domain, (rows,), moved(domain, place, step, start))
        same = [domain.same(a, b) for a, b in zip(found, expected, strict=True)]
        assert all(same), name
    elements = (table.reshape(8, 1),)
    for column in range(2):
        (found,) = looked_up(domain, elements, moved(domain, place, 2.0, float(column)))
        assert domain.same(found, expected[column])


@pytest.mark.parametrize(("step", "start"), [(1.0, 1.0), (1.0, -1.0), (-1.0, 3.0), (2.0, 0.0)])
def test_other_places_are_other_rows(domain: KnownNumbers, step: float, start: float) -> None:
    (table,) = domain.inputs(0, (4, 2))
    place = domain.whole_numbers(1, (1,))
    domain.collecting = True
    looked_up(domain, (table,), place)
    domain.collecting = False
    expected = looked_up(domain, (table,), place)
    found = looked_up(domain, (table,), moved(domain, place, step, start))
    pairs = zip(found, expected, strict=True)
    assert not any(isinstance(a, float) is False and domain.same(a, b) for a, b in pairs)


def test_places_that_may_be_fractions_have_no_steps(domain: KnownNumbers) -> None:
    """``2 x`` may be any whole number if ``x`` need not be one."""
    (table,) = domain.inputs(0, (4, 1))
    halves = domain.inputs(1, (1,))
    (found,) = looked_up(domain, (table,), moved(domain, halves, 2.0, 0.0))
    (even,) = looked_up(domain, (table[::2],), halves)
    assert not domain.same(found, even)
