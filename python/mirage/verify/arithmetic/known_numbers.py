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
from collections.abc import Callable, Mapping, Sequence, Set
from fractions import Fraction

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects
from mirage.verify.arithmetic.pairwise_maxima import pairwise_maxima
from mirage.verify.arithmetic.symbolic import Element, Ratio, Symbolic
from mirage.verify.arithmetic.whole_numbers import quotient

_UNIT = (0, 0)  # the term of a number
_ROW, _IS = "row", "is at"
_MOST_PLACES = 32

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
        self._indicators: dict[int, tuple[object, int]] = {}
        self._quotients: dict[int, tuple[Ratio, int]] = {}  # which ones symbols are
        self._odd: dict[object, Element] = {}  # what halves leave, by the halves

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
            if fn is UnaryFn.NOT and self._key(v) in self._truths:
                return self._not(v)
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
            if first is None or second is None:
                decided = self._of_tables(known, x, y)
                if decided is not None:
                    return decided
            if fn is BinaryFn.EQ and (first is None or second is None):
                return self._equal(x, y)
            if fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER) and second is not None:
                divided = self._divided(fn, x, second)
                if divided is not None:
                    return divided
            if fn is BinaryFn.LT and second == 0 and (truth := self._below_zero(x)) is not None:
                return truth
            if (
                fn in (BinaryFn.MAX, BinaryFn.MIN)
                and (one_of := self._one_of(fn, x, y)) is not None
            ):
                return one_of
            if first is None or second is None:
                one, other = (objects([v], ()) for v in (x, y))
                (found,) = super(KnownNumbers, self).binary(fn, (one,), (other,), dtype)
                element: Element = found.item()
                if fn in (BinaryFn.LT, BinaryFn.LE):
                    self._truths.add(self._key(element))
                return element
            return element_of(known(first, second))

        return (as_array(np.frompyfunc(apply, 2, 1)(a[0], b[0])),)

    # ---- whole numbers, truth values -------------------------------------------------------------

    def _divided(self, fn: BinaryFn, x: Element, by: Fraction) -> Element | None:
        """A quotient or a remainder of whole numbers, by a positive number."""
        if by <= 0 or by != int(by) or not isinstance(x, Ratio) or not self._is_whole(x):
            return None
        found = self._quotient({t: int(c) for t, c in x.top.items()}, int(by))
        if fn is BinaryFn.FLOOR_DIV:
            return found
        rest = self.add(x, self.mul(found, element_of(-int(by))))
        if by == 2:
            self._truths.add(self._key(rest))
            self._odd[self._key(found)] = rest
        return rest

    def _quotient(self, a: Mapping[tuple[int, int], int], n: int) -> Element:
        found = quotient(a, n)
        whole: Element = Ratio(dict(found.whole))
        if not found.rest:
            return whole
        inside = self._inside(found.rest)
        if inside is not None:  # a quotient of a quotient
            (dividend, by), constant = inside
            summed = self.add(dividend, element_of(constant * by))
            assert isinstance(summed, Ratio)
            rest = self._quotient({t: int(c) for t, c in summed.top.items()}, by * found.by)
        else:
            element = Ratio(dict(found.rest))
            rest = self._symbol(("quotient", self._key(element), found.by))
            symbol = self._alone(rest)
            self._whole.add(symbol)
            self._quotients[symbol] = element, found.by
        return self.add(whole, self.mul(rest, element_of(found.sign)))

    def _inside(self, rest: Mapping[tuple[int, int], int]) -> tuple[tuple[Ratio, int], int] | None:
        """The quotient that a sum is but for a number, and the number."""
        terms = [t for t in rest if t != _UNIT]
        if len(terms) != 1 or rest[terms[0]] != 1 or terms[0][0]:
            return None
        powers = self._monomials[terms[0][1]]
        if len(powers) != 1 or powers[0][1] != 1 or powers[0][0] not in self._quotients:
            return None
        return self._quotients[powers[0][0]], rest.get(_UNIT, 0)

    def _alone(self, x: Ratio) -> int:
        """The symbol that an element is."""
        ((_, monomial),) = x.top
        ((symbol, _),) = self._monomials[monomial]
        return symbol

    def _below_zero(self, x: Element) -> Element | None:
        """Whether ``x < 0``, where ``x`` is made of truth values: of one of them, or the count of
        several with another sign."""
        if not isinstance(x, Ratio) or x.bottom is not None or number_of(x) is not None:
            return None
        if (line := self._line(x)) is not None:
            truth, number, factor = line
            no, yes = _truth(number < 0), _truth(number + factor < 0)
            return self.add(element_of(no), self.mul(truth, element_of(yes - no)))
        return self._any(x, -1)

    def _any(self, x: Ratio, sign: int) -> Element | None:
        """Whether one of several truth values is true, of which ``x`` is a count with a sign."""
        each = [Ratio({t: 1}) for t, c in x.top.items() if c * sign > 0]
        if len(each) < len(x.top) or not all(self._key(t) in self._truths for t in each):
            return None
        found = self._join(BinaryFn.MAX, list(each))
        self._truths.add(self._key(found))
        return found

    def _not(self, x: Element) -> Element:
        found = self.add(element_of(1), self.mul(x, element_of(-1)))
        self._truths.add(self._key(found))
        return found

    def _line(self, x: Element) -> tuple[Ratio, Fraction, Fraction] | None:
        """``(t, a, b)`` of ``a + b t`` with a truth value ``t``."""
        if not isinstance(x, Ratio) or x.bottom is not None:
            return None
        for truth in self._truths_in(x):
            ((term, c),) = list(truth.top.items())[-1:]
            factor = Fraction(x.top.get(term, 0)) / Fraction(c)
            number = number_of(self.add(x, self.mul(truth, element_of(-factor))))
            if number is not None:
                return truth, number, factor
        return None

    def _one_of(self, fn: BinaryFn, x: Element, y: Element) -> Element | None:
        """The larger (smaller) one of two whose difference a truth value decides."""
        if not isinstance(x, Ratio) or not isinstance(y, Ratio):
            return None
        difference = self.add(x, self.mul(y, element_of(-1)))
        if (line := self._line(difference)) is None:
            return None
        truth, number, factor = line
        best = BINARY[fn]
        no = best(number, Fraction(0))
        yes = best(number + factor, Fraction(0))
        rest = self.mul(truth, element_of(Fraction(yes) - Fraction(no)))
        return self.add(y, self.add(element_of(no), rest))

    def _truths_in(self, x: Ratio) -> list[Ratio]:
        """Truth values that a sum may be made of."""
        found: list[Ratio] = []
        for t in x.top:
            element = Ratio({t: 1})
            key = self._key(element)
            if key in self._truths:
                found.append(element)
            elif key in self._odd and isinstance(odd := self._odd[key], Ratio):
                found.append(odd)
        return found

    def _is_whole(self, x: Element) -> bool:
        """Whether an element is a sum of products of whole numbers."""
        return (
            isinstance(x, Ratio)
            and x.bottom is None
            and all(
                c == int(c)
                and not e
                and all(s in self._whole and n > 0 for s, n in self._monomials[m])
                for (e, m), c in x.top.items()
            )
        )

    def _equal(self, x: Element, y: Element) -> Element:
        """Whether two elements are equal: a function of their difference, of either sign."""
        there, back = (self.add(a, self.mul(b, element_of(-1))) for a, b in ((x, y), (y, x)))
        number = number_of(there)
        if number is not None:
            return element_of(_truth(number == 0))
        for sign in (1, -1):
            some = self._any(there, sign) if isinstance(there, Ratio) and not there.bottom else None
            if some is not None:
                return self._not(some)
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
        return pairwise_maxima(self, x, dims, dtype)

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
        keys: list[list[Element]] = [list(column) for column in columns.T]

        def row(place: Element) -> list[Element]:
            number = number_of(place)
            if number is None:
                return self._row_somewhere(place, keys, rows.shape[0])
            inside = number == int(number) and 0 <= number < rows.shape[0]
            return list(columns[int(number)]) if inside else [math.nan] * len(keys)

        found = [x for place in index.ravel() for x in row(place)]
        return (objects(found, (*index.shape, *rows.shape[1:])),)

    def _row_somewhere(
        self, place: Element, columns: Sequence[Sequence[Element]], count: int
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
            self._chosen_by(key, {v: column[at[v]] for v in values})
            or self._symbol((_ROW, key, frozenset((v, self._key(column[at[v]])) for v in values)))
            for column in columns
        ]

    def _chosen_by(self, place: object, values: Mapping[int, Element]) -> Element | None:
        """What an element is that is one of several, by the value of a place: the sum of all, each
        times whether it is that one; None where they are too many, or one of them is undefined
        somewhere."""
        if self.collecting or not 0 < len(values) <= _MOST_PLACES:
            return None
        if set(values) != set(self._defined.get(place, ())) or not all(
            isinstance(x, Ratio) and x.bottom is None for x in values.values()
        ):
            return None
        last = values[max(values)]
        result = last
        for v in sorted(values)[:-1]:
            difference = self.add(values[v], self.mul(last, element_of(-1)))
            result = self.add(result, self.mul(self._is_at(place, v), difference))
        return result

    def _is_at(self, place: object, value: int) -> Ratio:
        """Whether a place has a value; the largest one is where it has no other."""
        found = self._symbol((_IS, place, value))
        self._truths.add(self._key(found))
        self._indicators[self._alone(found)] = place, value
        return found

    def _table(self, x: Element) -> tuple[object, Mapping[int, Fraction]] | None:
        """An element that a place decides: the place, and a number for each of its values."""
        if self.collecting or not isinstance(x, Ratio) or x.bottom is not None:
            return None
        found = self._of_indicators(x)
        if found is None and self._is_whole(x) and number_of(x) is None:
            q, step, start = self._place(x)
            values = self._defined.get(self._key(q), frozenset[int]())
            if 0 < len(values) <= _MOST_PLACES:
                return self._key(q), {v: Fraction(step * v + start) for v in values}
        return found

    def _of_indicators(self, x: Ratio) -> tuple[object, Mapping[int, Fraction]] | None:
        constant, each = Fraction(0), dict[int, Fraction]()
        places: set[object] = set()
        for (exponent, monomial), c in x.top.items():
            powers = self._monomials[monomial]
            if not exponent and not powers:
                constant = Fraction(c)
                continue
            known = (
                self._indicators.get(powers[0][0]) if len(powers) == 1 and not exponent else None
            )
            if known is None or powers[0][1] != 1:
                return None
            places.add(known[0])
            each[known[1]] = Fraction(c)
        if len(places) != 1:
            return None
        (place,) = places
        values = self._defined.get(place, frozenset[int]())
        return place, {v: constant + each.get(v, Fraction(0)) for v in values}

    def _of_tables(
        self, known: Callable[[Fraction, Fraction], Number], x: Element, y: Element
    ) -> Element | None:
        """A function of two elements that the same place decides."""
        first, second = self._table(x), self._table(y)
        table = first or second
        if table is None:
            return None
        place, values = table
        each: dict[int, Element] = {}
        for v in values:
            pair: list[Fraction] = []
            for element, own in ((x, first), (y, second)):
                number = number_of(element) if own is None else own[1][v]
                if number is None or (own is not None and own[0] != place):
                    return None
                pair.append(number)
            each[v] = element_of(known(*pair))
        return self._chosen_by(place, each)

    def _place(self, place: Element) -> tuple[Element, int, int]:
        """``(q, step, start)`` of a place, where it is known to be one of whole numbers."""
        if not isinstance(place, Ratio) or not self._is_whole(place):
            return place, 1, 0
        rest = {t: int(c) for t, c in place.top.items() if t != _UNIT}
        step = math.gcd(*rest.values())
        step = -step if rest[min(rest)] < 0 else step
        return Ratio({t: c // step for t, c in rest.items()}), step, int(place.top.get(_UNIT, 0))

    def truth_values(self, name: int, shape: tuple[int, ...]) -> Planes:
        """A tensor of symbols that are 0 or 1."""
        found = self.whole_numbers(name, shape)
        self._truths.update(self._key(v) for v in found[0].ravel())
        return found

    def whole_numbers(self, name: int, shape: tuple[int, ...]) -> Planes:
        """A tensor of symbols that are whole numbers."""
        found = self.inputs(name, shape)
        self._whole.update(self._symbols[name, i] for i in range(math.prod(shape)))
        return found
