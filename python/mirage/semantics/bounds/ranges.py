"""Ranges of a tile's elements, for many steps and blocks at once.

The elements are real numbers or minus infinity, which masks add. Nothing is claimed about a program
whose values are undefined or plus infinity (:mod:`mirage.verify`), so an op that might produce such
a value has an unknown range, marked ``wild``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mirage.semantics.numbers import Number, nearest
from mirage.semantics.scalar import UNARY, Array, BinaryFn, UnaryFn

_EXACT = float(1 << 24)
"""The limit up to which whole numbers are exact in f32."""

_Truth: TypeAlias = "tuple[Array, Array]"


@dataclass(frozen=True)
class Range:
    """The range of a tile's elements, for each step and block.

    All elements are at least ``least`` and at most ``most``. Where ``below`` is true, some may also
    be minus infinity; elsewhere none is (``least`` of minus infinity then means that there is no
    lower bound). ``whole`` says that they are whole numbers that every arithmetic represents
    exactly or, if a bound is infinite, that it may have rounded to another number beyond 2^24:
    comparisons with exact numbers have the same result.
    """

    least: Array
    most: Array
    below: Array
    wild: Array
    whole: bool = False

    @property
    def lowest(self) -> Array:
        """Where all elements are minus infinity."""
        return (self.most == -np.inf) & ~self.wild

    @property
    def zero(self) -> Array:
        """Where all elements are zero."""
        return (self.least == 0) & (self.most == 0) & ~self.below & ~self.wild

    @property
    def finite(self) -> Array:
        """Where all elements are real numbers."""
        return ~self.below & ~self.wild


_NO = np.zeros((), bool)
ANY = Range(np.asarray(-np.inf), np.asarray(np.inf), _NO, _NO)
"""The range of all real numbers."""


def between(least: Array | float, most: Array | float, *, whole: bool = False) -> Range:
    """Return the range of real numbers within bounds."""
    low, high = np.asarray(least, float), np.asarray(most, float)
    exact = whole and bool(np.all(np.abs(low) < _EXACT) and np.all(np.abs(high) < _EXACT))
    return Range(low, high, _NO, _NO, exact)


def number(value: Number) -> Range:
    """Return the range of one number."""
    if value == -np.inf:
        return Range(np.asarray(-np.inf), np.asarray(-np.inf), ~_NO, _NO)
    if not np.isfinite(close := nearest(value)):
        return _wild_where(~_NO, ANY)
    return between(close, close, whole=value == int(value))


def _wild_where(wild: Array, x: Range) -> Range:
    return Range(x.least, x.most, x.below, x.wild | wild, x.whole)


def where(condition: Array, x: Range, y: Range) -> Range:
    """Return ``x`` for the steps and blocks where ``condition`` holds, ``y`` for the others."""
    return Range(
        np.where(condition, x.least, y.least),
        np.where(condition, x.most, y.most),
        np.where(condition, x.below, y.below),
        np.where(condition, x.wild, y.wild),
        x.whole and y.whole,
    )


def hull(*ranges: Range) -> Range:
    """Return a range that contains all of the given ranges."""
    first, *rest = ranges
    for x in rest:
        first = Range(
            np.minimum(first.least, x.least),
            np.maximum(first.most, x.most),
            first.below | x.below,
            first.wild | x.wild,
            first.whole and x.whole,
        )
    return first


def any_sum(x: Range) -> Range:
    """Return the range of a sum of one or more of the elements."""
    some = Range(np.where(x.least >= 0, 0.0, -np.inf), np.asarray(np.inf), x.below, x.wild)
    return where(x.zero | x.lowest, x, some)


def any_product_sum(x: Range, y: Range) -> Range:
    """Return the range of a sum of products, each of an element of ``x`` and one of ``y``."""
    nothing = (x.zero & y.finite) | (y.zero & x.finite)
    return where(nothing, number(0.0), _wild_where(~(x.finite & y.finite), ANY))


def any_other(*ranges: Range) -> Range:
    """Return the range of all real numbers, which is known only where the operands are real
    numbers."""
    unknown = _NO
    for x in ranges:
        unknown = unknown | ~x.finite
    return _wild_where(unknown, ANY)


# ---- scalar functions


def unary(fn: UnaryFn, x: Range) -> Range:
    """Return the range of a unary function of the elements."""
    if fn is UnaryFn.NEG:
        return _wild_where(~x.finite, Range(-x.most, -x.least, _NO, _NO, x.whole))
    if fn is UnaryFn.NOT:
        false, true = _truth(x)
        return _from_truth(true, false, x)
    if fn is UnaryFn.BIAS:
        false, true = x.zero, (x.least > 0) & x.finite
        mixed = Range(np.asarray(-np.inf), np.asarray(0.0), ~_NO, x.wild)
        return where(true, number(0.0), where(false, number(-np.inf), mixed))
    if fn is UnaryFn.EXP:
        some = Range(np.asarray(0.0), np.asarray(np.inf), _NO, x.wild)
        return where(x.lowest, number(0.0), some)
    if fn is UnaryFn.LOG1P:
        return where(x.zero, x, unary(UnaryFn.LOG, x))
    if fn is UnaryFn.LOG:
        return Range(np.asarray(-np.inf), np.asarray(np.inf), ~_NO, ~x.finite)
    if UNARY[fn].zero_at_zero:
        return where(x.zero, x, any_other(x))
    return any_other(x)


def binary(fn: BinaryFn, x: Range, y: Range) -> Range:
    """Return the range of a binary function of pairs of elements."""
    if fn is BinaryFn.KEEP:
        false, true = _truth(x)
        return where(true, y, where(false, number(0.0), hull(y, number(0.0))))
    with np.errstate(invalid="ignore"):
        found = _BINARY[fn](x, y) if fn in _BINARY else any_other(x, y)
    return found if found.whole == _small(found) else _inexact(found)


def _small(x: Range) -> bool:
    return x.whole and bool(np.all(np.abs(x.least) < _EXACT) and np.all(np.abs(x.most) < _EXACT))


def _inexact(x: Range) -> Range:
    return Range(x.least, x.most, x.below, x.wild)


def _add(x: Range, y: Range) -> Range:
    below = x.below | y.below
    sums = Range(x.least + y.least, x.most + y.most, below, x.wild | y.wild, x.whole and y.whole)
    lowest = (x.lowest & ~y.wild) | (y.lowest & ~x.wild)
    return where(lowest, number(-np.inf), sums) if np.any(lowest) else sums


def _sub(x: Range, y: Range) -> Range:
    return _add(x, _wild_where(y.below, Range(-y.most, -y.least, _NO, y.wild, y.whole)))


def _mul(x: Range, y: Range) -> Range:
    ends = [np.nan_to_num(a * b, nan=0.0, posinf=np.inf, neginf=-np.inf)
            for a in (x.least, x.most) for b in (y.least, y.most)]  # fmt: skip
    wild = x.wild | y.wild
    for a, b in ((x, y), (y, x)):  # minus infinity times a number that is not known to be positive
        wild = wild | (a.below & ~((b.least > 0) & b.finite))
    least, most = (
        np.minimum.reduce(np.broadcast_arrays(*ends)),
        np.maximum.reduce(np.broadcast_arrays(*ends)),
    )
    products = Range(least, most, x.below | y.below, wild, x.whole and y.whole)
    nothing = (x.zero & y.finite) | (y.zero & x.finite)
    lowest = (x.lowest | y.lowest) & ~wild
    found = where(nothing, number(0.0), products) if np.any(nothing) else products
    return where(lowest, number(-np.inf), found) if np.any(lowest) else found


def _div(x: Range, y: Range) -> Range:
    one = (y.least == y.most) & (y.least != 0) & y.finite
    if np.all(one):
        return _inexact(_mul(x, _inexact(Range(1 / y.least, 1 / y.least, _NO, _NO))))
    return where(x.zero & y.finite, number(0.0), any_other(x, y))


def _max(x: Range, y: Range) -> Range:
    return Range(
        np.maximum(x.least, y.least),
        np.maximum(x.most, y.most),
        x.below & y.below,
        x.wild | y.wild,
        x.whole and y.whole,
    )


def _min(x: Range, y: Range) -> Range:
    return Range(
        np.minimum(x.least, y.least),
        np.minimum(x.most, y.most),
        x.below | y.below,
        x.wild | y.wild,
        x.whole and y.whole,
    )


def _floor_div(x: Range, y: Range) -> Range:
    if not (x.whole and y.whole and np.all((y.least == y.most) & (y.least > 0))):
        return any_other(x, y)
    return Range(np.floor(x.least / y.least), np.floor(x.most / y.least), x.below, x.wild, True)


def _remainder(x: Range, y: Range) -> Range:
    if not (x.whole and y.whole and np.all((y.least == y.most) & (y.least > 0))):
        return any_other(x, y)
    low, high = np.floor(x.least / y.least), np.floor(x.most / y.least)
    same = low == high
    least = np.where(same, x.least - low * y.least, 0.0)
    most = np.where(same, x.most - low * y.least, y.least - 1)
    return Range(least, most, x.below, x.wild, True)


# ---- truth values


def _truth(x: Range) -> _Truth:
    """Return where all elements are false (zero), and where all are true."""
    known = x.finite
    return x.zero, ((x.least > 0) | (x.most < 0)) & known


def _from_truth(false: Array, true: Array, *of: Range) -> Range:
    wild = _NO
    for x in of:
        wild = wild | x.wild
    return Range(np.where(true, 1.0, 0.0), np.where(false, 0.0, 1.0), _NO, wild, True)


def _compared(x: Range, y: Range, false: Array, true: Array) -> Range:
    """Return the range of a comparison; it is known only for numbers that are the same in all
    arithmetics."""
    known = x.finite & y.finite if x.whole and y.whole else _NO
    return _from_truth(false & known, true & known)


def _lt(x: Range, y: Range) -> Range:
    return _compared(x, y, x.least >= y.most, x.most < y.least)


def _le(x: Range, y: Range) -> Range:
    return _compared(x, y, x.least > y.most, x.most <= y.least)


def _eq(x: Range, y: Range) -> Range:
    apart = (x.most < y.least) | (y.most < x.least)
    return _compared(x, y, apart, (x.least == x.most) & (y.least == y.most) & (x.least == y.least))


def _and(x: Range, y: Range) -> Range:
    (f, t), (g, u) = _truth(x), _truth(y)
    return _from_truth(f | g, t & u)


def _or(x: Range, y: Range) -> Range:
    (f, t), (g, u) = _truth(x), _truth(y)
    return _from_truth(f & g, t | u)


def _xor(x: Range, y: Range) -> Range:
    (f, t), (g, u) = _truth(x), _truth(y)
    return _from_truth((f & g) | (t & u), (f & u) | (t & g))


_BINARY = {
    BinaryFn.ADD: _add,
    BinaryFn.SUB: _sub,
    BinaryFn.MUL: _mul,
    BinaryFn.DIV: _div,
    BinaryFn.MAX: _max,
    BinaryFn.MIN: _min,
    BinaryFn.LT: _lt,
    BinaryFn.LE: _le,
    BinaryFn.EQ: _eq,
    BinaryFn.NE: lambda x, y: unary(UnaryFn.NOT, _eq(x, y)),
    BinaryFn.AND: _and,
    BinaryFn.OR: _or,
    BinaryFn.XOR: _xor,
    BinaryFn.FLOOR_DIV: _floor_div,
    BinaryFn.REMAINDER: _remainder,
}
