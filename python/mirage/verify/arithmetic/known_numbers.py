"""Symbolic arithmetic in which some elements are numbers that are known: positions, masks made of
them, tensors that a program holds.

A function of known numbers is the number that it gives (where that is rational); a choice by a
known number is one of two; rows that are looked up at a known place are that row. A row that is
looked up at an unknown place is a function of the place and of the table's column, of which nothing
else is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects
from mirage.verify.arithmetic.symbolic import Element, Ratio, Symbolic

_UNIT = (0, 0)  # the term of a number
_ROW = "row"

Number = Fraction | int | float
"""A rational number, or minus infinity."""


def _truth(value: bool) -> int:
    return int(value)


UNARY: dict[UnaryFn, Callable[[Fraction], Number]] = {
    UnaryFn.ABS: abs,
    UnaryFn.FLOOR: math.floor,
    UnaryFn.RELU: lambda x: max(x, Fraction(0)),
    UnaryFn.NOT: lambda x: _truth(x == 0),
    UnaryFn.BIAS: lambda x: 0 if x > 0 else -math.inf,
}
BINARY: dict[BinaryFn, Callable[[Fraction, Fraction], Number]] = {
    BinaryFn.LT: lambda x, y: _truth(x < y),
    BinaryFn.LE: lambda x, y: _truth(x <= y),
    BinaryFn.EQ: lambda x, y: _truth(x == y),
    BinaryFn.NE: lambda x, y: _truth(x != y),
    BinaryFn.AND: lambda x, y: _truth(x != 0 and y != 0),
    BinaryFn.OR: lambda x, y: _truth(x != 0 or y != 0),
    BinaryFn.XOR: lambda x, y: _truth((x != 0) != (y != 0)),
    BinaryFn.FLOOR_DIV: lambda x, y: x // y if y else math.nan,
    BinaryFn.REMAINDER: lambda x, y: x % y if y else math.nan,
    BinaryFn.MAX: max,
    BinaryFn.MIN: min,
}


def number_of(x: Element) -> Fraction | None:
    """The rational number that an element is, if it is known."""
    if not isinstance(x, Ratio) or x.bottom is not None:
        return None
    if not x.top:
        return Fraction(0)
    return Fraction(x.top[_UNIT]) if len(x.top) == 1 and _UNIT in x.top else None


def element_of(number: Number) -> Element:
    """A number as an element."""
    if isinstance(number, float):
        return number if number == -math.inf else math.nan
    value = number.numerator if number == int(number) else number
    return Ratio({_UNIT: value} if value else {})


class KnownNumbers(Symbolic):
    """The domain described in the module's docstring."""

    def held(self, values: Array) -> Planes:
        """A tensor of numbers that are known: float64, each read exactly."""

        def read(x: float) -> Element:
            return element_of(Fraction(x) if math.isfinite(x) else float(x))

        flat = np.asarray(values, np.float64)
        return (objects([read(float(x)) for x in flat.ravel()], flat.shape),)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        known = UNARY.get(fn)
        if known is None:
            return super().unary(fn, x, dtype)

        def apply(v: Element) -> Element:
            number = number_of(v)
            return self._apply(fn, v) if number is None else element_of(known(number))

        return (map_elements(apply, x[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.KEEP:
            return (as_array(np.frompyfunc(self._keep, 2, 1)(a[0], b[0])),)
        known = BINARY.get(fn)
        if known is None:
            return super().binary(fn, a, b, dtype)

        def apply(x: Element, y: Element) -> Element:
            first, second = number_of(x), number_of(y)
            if first is None or second is None:
                one, other = (objects([v], ()) for v in (x, y))
                (found,) = super(KnownNumbers, self).binary(fn, (one,), (other,), dtype)
                element: Element = found.item()
                return element
            return element_of(known(first, second))

        return (as_array(np.frompyfunc(apply, 2, 1)(a[0], b[0])),)

    def _keep(self, condition: Element, x: Element) -> Element:
        """``x`` where the condition is not zero, else zero."""
        number = number_of(condition)
        if number is not None:
            return x if number else Ratio({})
        return Ratio({}) if number_of(x) == 0 else self._apply(BinaryFn.KEEP, condition, x)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is ReduceFn.SUM:
            return super().reduce(fn, x, dims, dtype)
        for d in dims:
            parts = np.moveaxis(x[0], d, 0)
            found: Planes = (parts[0],)
            for part in parts[1:]:
                found = self.binary(BinaryFn.MAX, found, (part,), dtype)
            x = (np.expand_dims(found[0], d),)
        return x

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        numbers = [number_of(v) for v in x[0].ravel()]
        half = 2 ** (dtype.bits - 1)
        if any(n is None or not -half <= n < half for n in numbers):
            return None
        return (objects([element_of(math.trunc(n)) for n in numbers if n is not None], x[0].shape),)

    def rows(self, table: Planes, places: Planes) -> Planes:
        """The rows of a table at places."""
        (rows,), (index,) = table, places
        rest = rows.shape[1:]
        columns = rows.reshape(rows.shape[0], -1)
        keys = [frozenset(enumerate(map(self._key, column))) for column in columns.T]

        def row(place: Element) -> list[Element]:
            number = number_of(place)
            if number is None:
                key = self._key(place)
                if key is None:
                    return [math.nan] * len(keys)
                return [self._symbol((_ROW, key, column)) for column in keys]
            inside = number == int(number) and 0 <= number < rows.shape[0]
            return list(columns[int(number)]) if inside else [math.nan] * len(keys)

        found = [x for place in index.ravel() for x in row(place)]
        return (objects(found, (*index.shape, *rest)),)
