"""Symbolic arithmetic in which some elements are numbers that are known: positions, masks made of
them, tensors that a program holds.

A function of known numbers is the number that it gives (where that is rational); a choice by a
known number is one of two; rows that are looked up at a known place are that row. A row that is
looked up at an unknown place is a function of the place and of what the table has at each, of which
nothing else is known. Places are brought to one form, ``step * q + start``, and count as far as the
first program has rows there: where it has none, it is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
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
    """The domain described in the module's docstring. While it is ``collecting``, the program that
    is evaluated is the one that says which rows there have to be."""

    def __init__(self, *, most_work: int) -> None:
        super().__init__(most_work=most_work)
        self.collecting = False
        self._whole: set[int] = set()  # symbols
        self._defined: dict[object, Set[int]] = {}
        self._kept: dict[object, tuple[object, Element]] = {}  # by the key of what keeps it
        self._truths: set[object] = set()  # keys of elements that are 0 or 1
        self._masks: dict[object, object] = {}  # what a bias is that of

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
            if number is not None:
                return element_of(known(number))
            found = self._apply(fn, v)
            if fn is UnaryFn.BIAS:
                self._masks[self._key(found)] = self._key(v)
            return found

        return (map_elements(apply, x[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.KEEP:
            return (as_array(np.frompyfunc(self._keep, 2, 1)(a[0], b[0])),)
        if fn is BinaryFn.ADD and self._kept and self._masks:
            return (as_array(np.frompyfunc(self._seen, 2, 1)(a[0], b[0])),)
        known = BINARY.get(fn)
        if known is None:
            return super().binary(fn, a, b, dtype)

        def apply(x: Element, y: Element) -> Element:
            first, second = number_of(x), number_of(y)
            if fn is BinaryFn.EQ and (first is None or second is None):
                return self._equal(x, y)
            if first is None or second is None:
                one, other = (objects([v], ()) for v in (x, y))
                (found,) = super(KnownNumbers, self).binary(fn, (one,), (other,), dtype)
                element: Element = found.item()
                if fn in (BinaryFn.LT, BinaryFn.LE):
                    self._truths.add(self._key(element))
                return element
            return element_of(known(first, second))

        return (as_array(np.frompyfunc(apply, 2, 1)(a[0], b[0])),)

    def _equal(self, x: Element, y: Element) -> Element:
        """Whether two elements are equal: a function of their difference, of either sign."""
        there, back = (self.add(a, self.mul(b, element_of(-1))) for a, b in ((x, y), (y, x)))
        number = number_of(there)
        if number is not None:
            return element_of(_truth(number == 0))
        keys = self._key(there), self._key(back)
        if None in keys:
            return math.nan
        found = self._symbol((BinaryFn.EQ, frozenset(keys)))
        self._truths.add(self._key(found))
        return found

    def _keep(self, condition: Element, x: Element) -> Element:
        """``x`` where the condition is not zero, else zero."""
        number = number_of(condition)
        if number is not None:
            return x if number else Ratio({})
        if number_of(x) == 0:
            return Ratio({})
        plain = self._key(condition) in self._truths and self._is_plain(x)
        found = self.mul(condition, x) if plain else self._apply(BinaryFn.KEEP, condition, x)
        self._kept[self._key(found)] = self._key(condition), x
        return found

    def _is_plain(self, x: Element) -> bool:
        """Whether an element is a polynomial of inputs: a number whatever these are."""
        if not isinstance(x, Ratio) or x.bottom is not None:
            return False
        powers = (power for _, m in x.top for power in self._monomials[m])
        return not any(e for e, _ in x.top) and all(
            n > 0 and s not in self._functions for s, n in powers
        )

    def _seen(self, x: Element, y: Element) -> Element:
        """A sum: what a mask keeps need not be kept where minus infinity is added to the rest."""
        for one, other in ((x, y), (y, x)):
            if isinstance(one, Ratio) and isinstance(other, Ratio):
                kept = self._kept.get(self._key(one))
                mask = self._masks.get(self._key(other))
                if kept is not None and mask is not None and kept[0] == mask:
                    return self.add(kept[1], other)
        return self.add(x, y)

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

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes:
        half = 2 ** (dtype.bits - 1)

        def apply(v: Element) -> Element:
            number = number_of(v)
            if number is None or not -half <= number < half:
                return self._apply((given, dtype), v)
            return element_of(math.trunc(number))

        return (map_elements(apply, x[0]),)

    # ---- rows of tables

    def rows(self, table: Planes, places: Planes) -> Planes:
        """The rows of a table at places."""
        (rows,), (index,) = table, places
        columns = rows.reshape(rows.shape[0], -1)
        keys = [list(map(self._key, column)) for column in columns.T]

        def row(place: Element) -> list[Element]:
            number = number_of(place)
            if number is None:
                return self._row_somewhere(place, keys, rows.shape[0])
            inside = number == int(number) and 0 <= number < rows.shape[0]
            return list(columns[int(number)]) if inside else [math.nan] * len(keys)

        found = [x for place in index.ravel() for x in row(place)]
        return (objects(found, (*index.shape, *rows.shape[1:])),)

    def _row_somewhere(
        self, place: Element, columns: Sequence[Sequence[object]], count: int
    ) -> list[Element]:
        """A row at an unknown place ``step * q + start``: a function of ``q`` and of what each
        column has there for each of its values, as far as the first program is defined for it."""
        q, step, start = self._place(place)
        key = self._key(q)
        if key is None:
            return [math.nan] * len(columns)
        at = {(r - start) // step: r for r in range(count) if (r - start) % step == 0}
        if self.collecting:
            self._defined[key] = self._defined.get(key, at.keys()) & at.keys()
        values = [v for v in at if v in self._defined.get(key, at.keys())]
        lost = self._defined.get(key, frozenset[int]()) - at.keys()
        if lost:
            return [math.nan] * len(columns)
        return [
            self._symbol((_ROW, key, frozenset((v, column[at[v]]) for v in values)))
            for column in columns
        ]

    def _place(self, place: Element) -> tuple[Element, int, int]:
        """``(q, step, start)`` of a place, where it is known to be one of whole numbers."""
        if not isinstance(place, Ratio) or place.bottom is not None:
            return place, 1, 0
        whole = all(
            c == int(c) and not e and all(s in self._whole and n > 0 for s, n in self._monomials[m])
            for (e, m), c in place.top.items()
        )
        if not whole:
            return place, 1, 0
        rest = {t: int(c) for t, c in place.top.items() if t != _UNIT}
        step = math.gcd(*rest.values())
        step = -step if rest[min(rest)] < 0 else step
        return Ratio({t: c // step for t, c in rest.items()}), step, int(place.top.get(_UNIT, 0))

    def whole_numbers(self, name: int, shape: tuple[int, ...]) -> Planes:
        """A tensor of symbols that are whole numbers."""
        found = self.inputs(name, shape)
        self._whole.update(self._symbols[name, i] for i in range(math.prod(shape)))
        return found
