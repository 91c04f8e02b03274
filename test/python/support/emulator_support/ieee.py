"""Correct rounding of exact rationals to binary formats, written from the definition, and bit
patterns for tests.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]

# Format: bits of the significand (with the hidden one), smallest exponent, largest exponent.
FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
}


def round_exact(
    value: Fraction, kind: str, mode: str = "rn", *, negative_zero: bool = False
) -> float:
    """`value` in the format; zero results take the sign of the value (or negative_zero)."""
    precision, low, high = FORMATS[kind]
    if value == 0:
        return -0.0 if negative_zero else 0.0
    sign = -1 if value < 0 else 1
    magnitude = abs(value)
    estimate = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent = max(estimate, low)
    while Fraction(2) ** exponent > magnitude and exponent > low:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    unit = Fraction(2) ** (exponent - precision + 1)
    quotient = magnitude / unit
    whole = quotient.numerator // quotient.denominator
    rest = quotient - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": False,
        "rp": rest > 0 and sign > 0,
        "rm": rest > 0 and sign < 0,
    }[mode]
    result = (whole + up) * unit
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
    if result > largest:
        goes_to_infinity = mode == "rn" or ((mode == "rp") == (sign > 0) and mode != "rz")
        return sign * (math.inf if goes_to_infinity else float(largest))
    return math.copysign(result.numerator / result.denominator, sign)


NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def patterns(kind: str, count: int = 32) -> st.SearchStrategy[Array]:
    """Any bit pattern, with many zeros, subnormals, near-ties, infinities and NaNs."""
    bits = _BITS[kind]
    mantissa = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
    top = 1 << (bits - 1)
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    special = [0, top, 1, top | 1, infinity, top | infinity, infinity | 1 << (mantissa - 1),
               infinity - 1, 1 << mantissa, (1 << mantissa) - 1]  # fmt: skip
    near_one = st.integers(
        (infinity // 2) & ~((1 << mantissa) - 1), ((infinity // 2) | ((1 << mantissa) - 1))
    )
    one = st.one_of(st.sampled_from(special), st.integers(0, 2**bits - 1), near_one)
    unsigned: Any = f"u{bits // 8}"
    return st.lists(one, min_size=count, max_size=count).map(
        lambda v: np.array(v, unsigned).view(NUMPY[kind])
    )
