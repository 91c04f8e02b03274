"""The exact numbers that doubles stand for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirage.semantics.numbers import as_number, read, read_single
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Constant, TensorType, Value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, Fraction(0)),
        (-3.0, Fraction(-3)),
        (2.0**-28, Fraction(1, 1 << 28)),
        (-(2.0**40), Fraction(-(1 << 40))),
        (1.0 / 6144.0, Fraction(1, 6144)),
        (1.0 / 4095.0, Fraction(1, 4095)),
        (-2.0 / 3.0, Fraction(-2, 3)),
        (1.0 / (6144.0 * 4096.0), Fraction(1, 6144 * 4096)),
        (1e-6, Fraction(1, 10**6)),
        (1e-12, Fraction(1, 10**12)),
        (0.044715, Fraction(44715, 10**6)),
        (0.0883883, Fraction(883883, 10**7)),
        (0.7978845608, Fraction(7978845608, 10**10)),
        (128.0**-0.5, Fraction(128.0**-0.5)),
        (0.797 * 0.3, Fraction(797 * 3, 10000)),
        (float(np.float32(0.1)), Fraction(float(np.float32(0.1)))),
        (1e300, Fraction(10) ** 300),
    ],
)
def test_a_double_is_read_as_what_is_written(value, expected):
    assert read(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_read_rounds_to_the_double(value):
    assert float(read(value)) == value
    assert read(-value) == -read(value)


@given(st.integers(1, 1 << 19), st.integers(1, 1 << 20))
def test_simple_fractions_are_read(numerator, denominator):
    fraction = Fraction(numerator, denominator)
    assert read(float(fraction)) == fraction


@given(st.integers(1, 10**15 - 1), st.integers(-20, 20))
def test_decimals_are_read(digits, exponent):
    """Unless a simpler fraction is the same double."""
    decimal = Fraction(digits) * Fraction(10) ** exponent
    found = read(float(f"{digits}e{exponent}"))
    assert found == decimal or found.numerator * found.denominator <= 1 << 40 or is_short(found)


def is_short(number: Fraction) -> bool:
    odd = number.numerator // (number.numerator & -number.numerator)
    return odd.bit_length() <= 24


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_of_f32_are_themselves(value):
    assert read(value) == Fraction(value)


def test_infinities_stay():
    assert as_number(math.inf) == math.inf
    assert as_number(Fraction(1, 3)) == Fraction(1, 3)
    assert as_number(7) == Fraction(7)


def test_constants_hold_exact_numbers():
    constant = Constant((), (Value(TensorType((), DType.F32)),), 0.1)
    assert constant.value == Fraction(1, 10)


@pytest.mark.parametrize("written", [0.3, -1e-6, 1 / 3, 2 / 7, 1 / 4096, 0.044715, 12.0, 0.0])
def test_an_f32_is_read_as_what_is_written(written: float):
    assert read_single(float(np.float32(written))) == written


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_what_an_f32_is_read_as_rounds_to_it(value: float):
    assert np.float32(read_single(value)) == np.float32(value)
