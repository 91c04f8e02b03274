"""Symbolic arithmetic with whole parts: ``floor(a + n) = n + floor(a)`` for a whole number ``n``,
and ``floor(-a) = -floor(a)`` if ``a`` is a whole number, else ``-floor(a) - 1``.

The floor of anything else is a symbol, which is a whole number itself. What ``a`` is more than its
floor is at least 0 and less than 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import DType, UnaryFn
from mirage.verify.arithmetic.interned_sums import ONE
from mirage.verify.arithmetic.known_functions import element_of
from mirage.verify.arithmetic.logarithms import Sum
from mirage.verify.arithmetic.object_arrays import map_elements
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.roots_by_signs import RootsBySigns


class Floors(RootsBySigns):
    """The domain described in the module's docstring."""

    def __init__(self, *, most_work: int) -> None:
        super().__init__(most_work=most_work)
        self._fractions: dict[int, Sum] = {}
        """What an argument is more than its floor, by the symbol of the floor."""

    @abstractmethod
    def is_whole(self, a: Sum) -> bool:
        """Return whether a sum, which is the rest of a division by 1, is known to be zero. May
        raise :class:`NoProof`."""

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.FLOOR:
            return (map_elements(self._floor, x[0]),)
        return super().unary(fn, x, dtype)

    def fractions(self, forms: list[Sum]) -> Iterator[Sum]:
        """Yield the rests that are at least 0 and less than 1, of floors that occur in forms."""
        symbols = {s for form in forms for _, m in form for s, _ in self._monomials[m]}
        yield from (self._fractions[s] for s in sorted(symbols & self._fractions.keys()))

    def _floor(self, a: Element) -> Element:
        if not isinstance(a, Ratio) or a.bottom is not None:
            return a if not isinstance(a, Ratio) else self._apply(UnaryFn.FLOOR, a)
        whole = {t: c for t, c in a.top.items() if self._is_whole_term(t) and c == int(c)}
        rest = {t: c for t, c in a.top.items() if t not in whole}
        if ONE in rest:
            number = math.floor(rest[ONE])
            whole = self._sum(whole, {ONE: number} if number else {})
            rest = self._sum(rest, {ONE: -number} if number else {})
        return self.add(Ratio(whole), self._floor_of(rest)) if rest else Ratio(whole)

    def _is_whole_term(self, term: tuple[int, int]) -> bool:
        exponent, monomial = term
        powers = self._monomials[monomial]
        return not exponent and all(s in self._fractions and p > 0 for s, p in powers)

    def _floor_of(self, rest: Sum) -> Element:
        """Return the floor of a sum without a whole part."""
        first = min(t for t in rest if t != ONE) if rest.keys() - {ONE} else ONE
        if first == ONE:
            return element_of(math.floor(Fraction(rest[ONE])))
        if rest[first] < 0:
            opposite = self._product(rest, {ONE: -1})
            below = self._floor(Ratio(opposite))
            over = self.add(Ratio(opposite), self.negated(below))
            assert isinstance(over, Ratio)
            less = 0 if self.is_whole(over.top) else -1
            return self.add(self.negated(below), element_of(less))
        found = self._apply(UnaryFn.FLOOR, Ratio(rest))
        assert isinstance(found, Ratio)
        ((_, monomial),) = found.top
        ((symbol, _),) = self._monomials[monomial]
        self._fractions[symbol] = self._sum(rest, self._product(found.top, {ONE: -1}))
        return found
