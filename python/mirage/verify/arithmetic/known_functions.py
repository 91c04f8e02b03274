"""Numbers as elements of symbolic arithmetic, and functions of numbers that are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.verify.arithmetic.interned_sums import ONE
from mirage.verify.arithmetic.ratios import Element, Ratio

Number = Fraction | int | float
"""A rational number, or minus infinity."""


def truth(value: bool) -> int:
    """Convert a truth value to a number, 0 or 1."""
    return int(value)


UNARY: dict[UnaryFn, Callable[[Fraction], Number]] = {
    UnaryFn.ABS: abs,
    UnaryFn.FLOOR: math.floor,
    UnaryFn.RELU: lambda x: max(x, Fraction(0)),
    UnaryFn.NOT: lambda x: truth(x == 0),
    UnaryFn.BIAS: lambda x: 0 if x > 0 else -math.inf,
}
BINARY: dict[BinaryFn, Callable[[Fraction, Fraction], Number]] = {
    BinaryFn.LT: lambda x, y: truth(x < y),
    BinaryFn.LE: lambda x, y: truth(x <= y),
    BinaryFn.EQ: lambda x, y: truth(x == y),
    BinaryFn.NE: lambda x, y: truth(x != y),
    BinaryFn.AND: lambda x, y: truth(x != 0 and y != 0),
    BinaryFn.OR: lambda x, y: truth(x != 0 or y != 0),
    BinaryFn.XOR: lambda x, y: truth((x != 0) != (y != 0)),
    BinaryFn.FLOOR_DIV: lambda x, y: x // y if y else math.nan,
    BinaryFn.REMAINDER: lambda x, y: x % y if y else math.nan,
    BinaryFn.MAX: max,
    BinaryFn.MIN: min,
}


def number_of(x: Element) -> Fraction | None:
    """Return the rational number that an element equals, or None if that is not known."""
    if not isinstance(x, Ratio) or x.bottom is not None:
        return None
    if not x.top:
        return Fraction(0)
    return Fraction(x.top[ONE]) if len(x.top) == 1 and ONE in x.top else None


def element_of(number: Number) -> Element:
    """Convert a number to an element."""
    if isinstance(number, float):
        return number if number == -math.inf else math.nan
    value = number.numerator if number == int(number) else number
    return Ratio({ONE: value} if value else {})
