"""Constants as exact numbers.

A program's constants are rationals from the source to the compiler: folding them in another order,
or into each other, changes nothing. What a user writes is a float, which :func:`read` converts to a
rational once, at the import (in the builder, in IR). Only a kernel rounds a constant, to the type
in which it computes.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

Number = Fraction | float
"""The value of a constant: a fraction if it is finite, otherwise a float that is infinite (or NaN,
which graphs may not have).
"""

_SIMPLE = 1 << 40  # products of numerator and denominator up to here hardly match by chance
_DIGITS = 15  # decimal digits that every double distinguishes
_FEW_DIGITS = 12  # decimal digits that a number is unlikely to have by chance
_SIMPLE_SINGLE = 1 << 20  # the same for numbers of f32
_SINGLE_DIGITS = 6  # decimal digits that every f32 distinguishes
_BITS = 24  # binary digits of an f32


def as_number(value: Number | int) -> Number:
    """Return ``value`` as an exact number; finite floats are read."""
    if isinstance(value, float):
        return read(value) if math.isfinite(value) else value
    return Fraction(value)


def nearest(value: Number) -> float:
    """Return the double nearest to ``value``; infinite if it exceeds all doubles."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@lru_cache(maxsize=4096)
def read(value: float) -> Fraction:
    """Return the number that a finite double was written for; its nearest double is ``value``
    again.

    The result is the first of these that applies:

    1. ``value`` itself, where it has at most 24 binary digits: ``0.5``, ``2**-28``, all of f32;
    2. a simple fraction (numerator times denominator up to 2^40): ``1/6144``, ``1e-6``, ``2/3``;
    3. a decimal of at most 15 digits: ``0.044715``;
    4. ``value`` itself: ``128**-0.5``.
    """
    itself = Fraction(value)
    if _odd_part(abs(itself.numerator)).bit_length() <= _BITS:
        return itself
    half = Fraction(math.ulp(value)) / 2
    simple = _between(abs(itself) - half, abs(itself) + half)
    if value < 0:
        simple = -simple
    if abs(simple.numerator) * simple.denominator <= _SIMPLE and float(simple) == value:
        return simple
    digits = Decimal(repr(value)).normalize().as_tuple().digits
    return Fraction(repr(value)) if len(digits) <= _DIGITS else itself


def read_single(value: float) -> float:
    """Return the double nearest to the number that an f32 was written for: a simple fraction
    (numerator times denominator up to 2^20) or a decimal of at most 6 digits, if the f32 is the
    nearest one to it; otherwise ``value`` itself."""
    if not 0 < abs(value) < 2.0**127:
        return value
    size = abs(Fraction(value))
    half = Fraction(float(np.spacing(np.float32(abs(value))))) / 2
    simple = _between(size - half, size + half)
    if simple.numerator * simple.denominator > _SIMPLE_SINGLE:
        simple = Fraction(f"{abs(value):.{_SINGLE_DIGITS}g}")
    found = math.copysign(nearest(simple), value)
    return found if float(np.float32(found)) == value else value


def count_of(factor: np.float32) -> int:
    """Return the whole number whose reciprocal is ``factor`` in f32; 0 where there is none, or
    where that reciprocal is exact.

    Kernels multiply by such a constant as if they divided by the whole number, with one rounding:
    the mean of equal numbers is that number.
    """
    if not 2**-24 < factor < 0.5:
        return 0
    count = round(1 / float(factor))
    return count if np.float32(1 / count) == factor and float(factor) * count != 1 else 0


def is_simple(value: Fraction) -> bool:
    """Return whether a number is anything but a double with more digits than an f32 has."""
    a_double = value.denominator & (value.denominator - 1) == 0
    return not a_double or _odd_part(abs(value.numerator)).bit_length() <= _BITS


def simplest_near(value: Fraction, off: Fraction) -> Fraction | None:
    """Return a simple fraction at most ``off`` away from a number, otherwise a decimal of a few
    digits, otherwise None."""
    size = abs(value)
    if size > off:
        simple = _between(size - off, size + off)
        if simple.numerator * simple.denominator <= _SIMPLE:
            return simple if value > 0 else -simple
    decimal = Fraction(f"{nearest(value):.{_FEW_DIGITS}g}")
    return decimal if abs(decimal - value) <= off else None


def _odd_part(n: int) -> int:
    return n // (n & -n) if n else 0


def _between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator in ``[low, high]``, ``0 < low`` (by
    continued fractions, in the Stern-Brocot tree).
    """
    floor = low.numerator // low.denominator
    if floor == low:
        return low
    if floor + 1 <= high:
        return Fraction(floor + 1)
    rest = _between(1 / (high - floor), 1 / (low - floor))
    return floor + 1 / rest
