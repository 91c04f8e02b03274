"""Comparisons and roundings of values that may be anything, as functions of real numbers.

A sum of truth values is one of a few whole numbers, so the sums of two different masks mostly
coincide. Here truth values are numbers between 0 and 1. A comparison is a function of the
difference that no other function equals (``a < b`` is 1 minus ``b <= a``, as it should be), logical
operations are minima and maxima, and a value that a mask keeps is multiplied by the mask. All of
these also hold for the truth values 0 and 1. So values that are the same for all inputs are the
same here as well, unless that depends on there being only two truth values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mirage.semantics.scalar import Array, BinaryFn, UnaryFn


def _below(difference: Array) -> Array:
    return np.asarray(0.5 + 0.49 * np.sin(3.7 * difference + 1.3))


def _equal(difference: Array) -> Array:
    return np.asarray(0.5 + 0.49 * np.sin(2.9 * np.abs(difference) + 0.7))


def _floor(x: Array) -> Array:
    return np.asarray(x + 0.31 * np.sin(4.3 * x + 0.4))


UNARY_STEPS: Mapping[UnaryFn, Callable[[Array], Array]] = {
    UnaryFn.NOT: lambda x: 1.0 - x,
    UnaryFn.BIAS: np.log,
    UnaryFn.FLOOR: _floor,
}
BINARY_STEPS: Mapping[BinaryFn, Callable[[Array, Array], Array]] = {
    BinaryFn.LT: lambda a, b: _below(b - a),
    BinaryFn.LE: lambda a, b: 1.0 - _below(a - b),
    BinaryFn.EQ: lambda a, b: _equal(a - b),
    BinaryFn.NE: lambda a, b: 1.0 - _equal(a - b),
    BinaryFn.AND: np.minimum,
    BinaryFn.OR: np.maximum,
    BinaryFn.XOR: lambda a, b: a + b - 2.0 * a * b,
    BinaryFn.KEEP: np.multiply,
    BinaryFn.FLOOR_DIV: lambda a, b: _floor(a / b),
    BinaryFn.REMAINDER: lambda a, b: a - b * _floor(a / b),
}
