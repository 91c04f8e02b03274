"""Functions that are homogeneous: a positive factor of the argument is a factor of the result."""

from __future__ import annotations

from fractions import Fraction

from mirage.semantics.scalar import UnaryFn

_ONE = Fraction(1)
POWERS: dict[UnaryFn, Fraction] = {
    UnaryFn.NEG: _ONE,
    UnaryFn.ABS: _ONE,
    UnaryFn.RELU: _ONE,
    UnaryFn.SQUARE: Fraction(2),
    UnaryFn.SQRT: Fraction(1, 2),
    UnaryFn.RSQRT: Fraction(-1, 2),
    UnaryFn.RECIPROCAL: Fraction(-1),
}
"""For each such function, the power of the factor in its result."""
