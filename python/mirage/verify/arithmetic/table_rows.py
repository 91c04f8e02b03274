"""Symbolic arithmetic with rows that are looked up in tables.

A row that is looked up at an unknown place is an uninterpreted function of the place and of the
table's elements at each possible place. Places are normalised to ``step * q + start``. A place is
possible if the first program has a row there; elsewhere its lookup is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from fractions import Fraction

from mirage.semantics.domain import Planes
from mirage.verify.arithmetic.interned_sums import ONE
from mirage.verify.arithmetic.known_functions import Number, element_of, number_of
from mirage.verify.arithmetic.object_arrays import objects
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.truth_values import TruthValues

_ROW, _IS = "row", "is at"
_MOST_PLACES = 32


class TableRows(TruthValues):
    """Elements that are functions of a place in a table. While it is ``collecting``, the domain
    evaluates the first program to learn which rows must exist."""

    def __init__(self, *, most_work: int, reciprocals_as_symbols: bool = False) -> None:
        super().__init__(most_work=most_work, reciprocals_as_symbols=reciprocals_as_symbols)
        self.collecting = False
        self._defined: dict[object, Set[int]] = {}
        self._indicators: dict[int, tuple[object, int]] = {}

    def rows(self, table: Planes, places: Planes) -> Planes:
        """Look up the rows of a table at the given places."""
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
        """Return a row at an unknown place ``step * q + start``. Each of its elements is a function
        of ``q`` and of its column's elements at all values of ``q`` for which the first program is
        defined."""
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

    def _place(self, place: Element) -> tuple[Element, int, int]:
        """Write a place as ``(q, step, start)``; a place that is not known to be a whole number is
        ``(place, 1, 0)``."""
        if not isinstance(place, Ratio) or not self._is_whole(place):
            return place, 1, 0
        rest = {t: int(c) for t, c in place.top.items() if t != ONE}
        step = math.gcd(*rest.values())
        step = -step if rest[min(rest)] < 0 else step
        return Ratio({t: c // step for t, c in rest.items()}), step, int(place.top.get(ONE, 0))

    def _chosen_by(self, place: object, values: Mapping[int, Element]) -> Element | None:
        """Return the element that the value of a place chooses among several, as the sum of all of
        them, each times the truth value of its being chosen. Return None if there are too many or
        if one of them is undefined somewhere."""
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
        """Return the truth value of "the place has this value". (A place that has none of the other
        values has the largest one.)"""
        found = self._symbol((_IS, place, value))
        self._truths.add(self._key(found))
        self._indicators[self._alone(found)] = place, value
        return found

    def _table(self, x: Element) -> tuple[object, Mapping[int, Fraction]] | None:
        """Return the place that decides an element and the element's number for each of its values,
        or None."""
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
        """Apply a function to two elements that the same place decides."""
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
