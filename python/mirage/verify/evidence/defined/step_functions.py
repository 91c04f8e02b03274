"""Comparisons and roundings of values that may be anything, as functions of real numbers.

A sum of truth values is one of a few whole numbers, so that those of two different masks are mostly
the same ones. Here truth values are numbers between 0 and 1, a comparison is a function of the
difference that is like no other (``a < b`` is 1 less ``b <= a``, as it should be), logic is that of
least and largest values, and what a mask keeps is multiplied by it. All of them hold for the truth
values 0 and 1 too; so values that are the same for all inputs are the same here as well, unless
that depends on there being two truth values only.
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
