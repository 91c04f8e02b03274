"""Rounding to f16 without leaving f32.

NumPy converts to f16 element by element, which takes thirty times as long as an addition, and most
values are rounded to f16 when a GPU's arithmetic is predicted. Arithmetic in f32 gives the same
numbers, since it also rounds to nearest, ties to even: next to a number ``c`` of
``[2^23 u, 2^24 u)`` the numbers of f32 are ``u`` apart, so ``(x + c) - c`` is ``x`` rounded to a
multiple of ``u``, and ``x + c`` stays in that range for ``c = 1.5 * 2^23 u`` and ``|x| <= 2^22 u``.
For ``|x|`` in ``[2^e, 2^(e+1))`` the numbers of f16 are ``u = 2^(e-10)`` apart (``2^-24`` below
``2^-14``), so ``c = 1.5 * 2^(e+13)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_FEW = 4096
"""Elements below which NumPy's conversion is faster than several operations."""
_EXPONENT = np.uint32(0x7F800000)
_LEAST, _MOST = (np.float32(2.0**e).view(np.uint32) for e in (-14, 16))
_TO_ULP = np.float32(1.5 * 2.0**13)
_END = np.float32(2.0**112)
"""A factor that makes every number from 2^16 on exceed f32's range; rounding brings all numbers
beyond f16's range to at least 2^16."""


def rounded_to_half(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Round ``x`` (f32) to f16, as f32: the same bits as NumPy's conversion to f16 and back, except
    for NaN payloads. The caller must ignore overflow warnings."""
    if x.size < _FEW:
        return x.astype(np.float16).astype(np.float32)
    bits = x.view(np.uint32) & _EXPONENT
    np.clip(bits, _LEAST, _MOST, out=bits)
    c = bits.view(np.float32)
    c *= _TO_ULP
    y = x + c
    y -= c
    y *= _END
    y *= 1 / _END
    return np.copysign(y, x, out=y)  # zeros have signs


def rounded_to_tf32(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Round ``x`` (f32) to 11 significant bits, ties away from zero, as ``cvt.rna.tf32.f32`` does.
    Infinities and NaN do not change."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where((bits & _EXPONENT) == _EXPONENT, bits, rounded).view(np.float32)


def rounded_to_digits(x: np.ndarray[Any, Any], digits: int, end: int) -> np.ndarray[Any, Any]:
    """Round ``x`` (f64) to ``digits`` binary digits, without underflow; numbers that reach
    ``2^end`` become infinite. The caller must ignore overflow warnings."""
    if not x.shape:  # NumPy turns these into scalars, which cannot be written to
        return rounded_to_digits(x.reshape(1), digits, end).reshape(())
    bits = x.view(np.uint64) & np.uint64(0x7FF << 52)
    np.minimum(bits, np.float64(2.0**end).view(np.uint64), out=bits)
    c = bits.view(np.float64)
    c *= 1.5 * 2.0 ** (53 - digits)
    y = x + c
    y -= c
    y *= 2.0 ** (1024 - end)
    y *= 2.0 ** (end - 1024)
    return np.copysign(y, x, out=y)
