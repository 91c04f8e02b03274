"""Rounding of f32 or f64 numbers to floats of 8 bits, in one step.

Between ``2^e`` and ``2^(e+1)`` the numbers of a type with ``d`` fraction bits are ``2^(e-d)``
apart; below the least exponent the spacing stays the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]


def rounded_to_e4m3(x: _Array) -> _Array:
    """Round ``x`` to f8E4M3FN (to nearest, ties to even), in the type of ``x``. Numbers that are
    too large, infinity included, become the largest number, as in PyTorch's conversion."""
    x = np.asarray(x)
    return np.copysign(_rounded(np.minimum(np.abs(x), 448.0), digits=3, least=-6), x)


def rounded_to_e5m2(x: _Array) -> _Array:
    """Round ``x`` to f8E5M2 (to nearest, ties to even), which has infinities, in the type of
    ``x``."""
    x = np.asarray(x)
    y = _rounded(np.minimum(np.abs(x), 65536.0), digits=2, least=-14)
    return np.copysign(np.where(y > 57344.0, np.asarray(np.inf, x.dtype), y), x)


def _rounded(magnitude: _Array, digits: int, least: int) -> _Array:
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, least)
    with np.errstate(invalid="ignore"):  # the exponent of NaN
        scaled = np.rint(np.ldexp(magnitude, digits - exponent))
        return np.asarray(np.ldexp(scaled, exponent - digits))
