"""Floating-point operations with PTX's rounding, exact where PTX defines the result bit for bit.

float32 results of add, mul, div and sqrt come from NumPy (IEEE, round to nearest even). Fused
multiply-adds, conversions and directed roundings go through float64 *rounded to odd*: rounding such
a value once more, to at most 51 bits, gives the correctly rounded result (Boldo and Melquiond,
"Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import f32_to_bf16

ROUNDINGS = ("rn", "rz", "rm", "rp")


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as (rounded, error), exact (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def directed_sum(a: Array, b: Array, kind: str, rounding: str) -> Array:
    """float64 a + b rounded once to `kind`; an exact zero of opposite signs is -0 toward minus
    infinity, else +0."""
    a, b = np.broadcast_arrays(a, b)
    result = round_to(odd_sum(a, b), kind, rounding)
    if rounding == "rm":
        cancels = (a == -b) & (np.signbit(a) != np.signbit(b)) & np.isfinite(a)
        result = np.where(cancels, np.array(-0.0, result.dtype), result)
    return result


def odd_sum(a: Array, b: Array) -> Array:
    """float64 a + b rounded to odd."""
    s, error = two_sum(a, b)
    s = np.atleast_1d(s)
    inexact = np.isfinite(s) & (error != 0)
    if not any_of(inexact):
        return s
    raw = s.view(np.int64)
    even = inexact & ((raw & 1) == 0)
    grow = (error > 0) == (s > 0)
    raw = np.where(even, raw + np.where(grow, 1, -1), raw)
    return raw.view(np.float64)


def round_to(value: Array, kind: str, rounding: str = "rn") -> Array:
    """float64 values (exact or rounded to odd) as `kind`: f16 and f32 in their dtype, bf16 as
    float32 values that are bf16 numbers. f64 values must be exact."""
    if rounding == "rn":
        if kind == "f64":
            return value
        if kind == "f32":
            return value.astype(np.float32)
        if kind == "f16":
            return value.astype(np.float16)
        return _round_bf16(value)
    if kind == "f64":
        return value
    return _direct(value, kind, rounding)


def _round_bf16(value: Array) -> Array:
    """Through float32 rounded to odd, so that the second rounding is right."""
    nearest = value.astype(np.float32)
    wide = nearest.astype(np.float64)
    inexact = np.isfinite(wide) & (wide != value)
    raw = nearest.view(np.int32)
    away = np.abs(wide) > np.abs(value)
    raw = np.where(inexact & away, raw - 1, raw)
    raw = np.where(inexact, raw | 1, raw)
    half = f32_to_bf16(raw.view(np.float32))
    return (half.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _direct(value: Array, kind: str, rounding: str) -> Array:
    """Rounding toward zero, down or up: the nearest result, corrected by one step if it
    overshot."""
    nearest = round_to(value, kind)
    wide = nearest.astype(np.float64)
    if rounding == "rz":
        over = np.abs(wide) > np.abs(value)
        direction = np.zeros_like(wide)
    elif rounding == "rm":
        over = wide > value
        direction = np.full_like(wide, -np.inf)
    else:
        over = wide < value
        direction = np.full_like(wide, np.inf)
    over &= ~np.isnan(value) & ~np.isinf(value)
    if not any_of(over):
        return nearest
    if kind == "bf16":
        step = (f32_to_bf16(nearest).astype(np.int32) + _outward(nearest, direction)).astype(
            np.uint16
        )
        moved = (step.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return np.where(over, moved, nearest)
    return np.where(over, np.nextafter(nearest, direction.astype(nearest.dtype)), nearest)


def _outward(value: Array, direction: Array) -> Array:
    """+1 where moving a bf16 pattern toward `direction` grows its magnitude, else -1."""
    return np.where((direction > value) == (value >= 0), 1, -1) * np.where(value == direction, 0, 1)


def flush(value: Array) -> Array:
    """Subnormal float32 values as zeros of their sign."""
    small = (np.abs(value) < np.float32(2.0**-126)) & (value != 0)
    return np.where(small, np.copysign(np.float32(0), value), value) if any_of(small) else value


def saturate(value: Array) -> Array:
    """Clamps to [0, 1]; NaN becomes +0."""
    result = np.where(np.isnan(value), 0, np.clip(value, 0, 1)).astype(value.dtype)
    return np.where(result == 0, np.zeros((), value.dtype), result)


def canonical_nan(value: Array) -> Array:
    """float32 NaNs as PTX makes them, 0x7fffffff."""
    nan = np.isnan(value)
    if not any_of(nan):
        return value
    return np.where(nan, np.uint32(0x7FFFFFFF), value.view(np.uint32)).view(np.float32)


def fma(a: Array, b: Array, c: Array, kind: str, rounding: str = "rn") -> Array:
    """a * b + c rounded once. f16 and f32 arrays in their dtype, bf16 as float32 values."""
    if kind == "f64":
        return _fma_f64(a, b, c, rounding)
    product = a.astype(np.float64) * b.astype(np.float64)
    wide_c = c.astype(np.float64)
    if kind == "f32" and rounding == "rn":
        # The float64 sum is wrong only where it lands on a midpoint of float32 or is subnormal.
        total = product + wide_c
        tail = total.view(np.int64) & 0x1FFFFFFF
        risky = (tail == 0x10000000) | (np.abs(total) < 2.0**-125)
        if not any_of(risky):
            return total.astype(np.float32)
    return directed_sum(product, wide_c, kind, rounding)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    split = 134217729.0
    p = a * b
    ah = a * split - (a * split - a)
    bh = b * split - (b * split - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _fma_f64(a: Array, b: Array, c: Array, rounding: str) -> Array:
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = _two_product(a, b)
    th, tl = two_sum(c, low)
    vh, vl = two_sum(high, th)
    result = vh + odd_sum(tl, vl)
    # Within these bounds nothing overflows or loses bits below the smallest number.
    risky = np.full(result.shape, rounding != "rn")
    for operand, bound in ((a, 2.0**300), (b, 2.0**300), (c, 2.0**600)):
        magnitude = np.abs(operand)
        risky |= ~(magnitude < bound) | (magnitude < 1 / bound)
    risky |= np.abs(result) < 2.0**-600
    if not any_of(risky):
        return result
    result = np.array(result, copy=True)
    for index in np.argwhere(np.atleast_1d(risky)).tolist():
        at = tuple(index)
        result[at] = fma_exact(float(a[at]), float(b[at]), float(c[at]), rounding)
    return result


def fma_exact(a: float, b: float, c: float, rounding: str = "rn") -> float:
    """a * b + c in float64 through rationals: slow, right in every case."""
    with np.errstate(all="ignore"):
        plain = float(np.float64(a) * np.float64(b) + np.float64(c))
    if not (np.isfinite(a) and np.isfinite(b)):
        return plain
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        signs = {bool(np.signbit(a)) != bool(np.signbit(b)), bool(np.signbit(c))}
        return -0.0 if signs == {True} or (len(signs) == 2 and rounding == "rm") else 0.0
    try:
        nearest = exact.numerator / exact.denominator
    except OverflowError:
        nearest = float("inf") if exact > 0 else float("-inf")
    if nearest == 0:
        nearest = float(np.copysign(0.0, 1 if exact > 0 else -1))
    if rounding == "rn":
        return nearest
    over = _compare(nearest, exact)
    if rounding == "rz":
        toward, wrong = 0.0, over == (1 if exact > 0 else -1)
    elif rounding == "rm":
        toward, wrong = -np.inf, over > 0
    else:
        toward, wrong = np.inf, over < 0
    return float(np.nextafter(nearest, toward)) if wrong else nearest


def _compare(value: float, exact: Fraction) -> int:
    if np.isinf(value):
        return 1 if value > 0 else -1
    return (Fraction(value) > exact) - (Fraction(value) < exact)


def exact_f64(operation: str, a: Array, b: Array, rounding: str) -> Array:
    """float64 add or mul with a directed rounding."""
    a, b = np.broadcast_arrays(a, b)
    result = np.empty(a.shape, np.float64)
    for at in np.ndindex(a.shape):
        x, y = float(a[at]), float(b[at])
        zero = float(np.copysign(0.0, x) * np.copysign(1.0, y))  # of the product's sign
        terms = (x, 1.0, y) if operation == "add" else (x, y, zero)
        result[at] = fma_exact(*terms, rounding)
    return result


def minimum(a: Array, b: Array, *, nan: bool, largest: bool) -> Array:
    """PTX min/max: a NaN loses unless `nan`; -0 is below +0."""
    choose: Any = np.maximum if largest else np.minimum
    result = choose(a, b) if nan else (np.fmax if largest else np.fmin)(a, b)
    zero = (a == 0) & (b == 0)
    if any_of(zero):
        sign = np.signbit(a) & np.signbit(b) if largest else np.signbit(a) | np.signbit(b)
        signed = np.copysign(np.zeros((), result.dtype), np.where(sign, -1, 1).astype(result.dtype))
        result = np.where(zero, signed, result)
    return result
