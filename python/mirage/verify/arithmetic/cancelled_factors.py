"""Quotients of sums in which common factors are cancelled.

Parts of a softmax that are joined one after the other, each with the sum of its exponentials in the
denominator, have denominators that divide each other. Without cancelling, the number of terms grows
with each part. ``a / b`` is ``q`` if ``a = q b``, which is checked by multiplying.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

from mirage.verify.arithmetic.interned_sums import ONE
from mirage.verify.arithmetic.logarithms import Number, Sum, Term
from mirage.verify.arithmetic.ratios import Element, Ratio, Ratios

_MOST_STEPS = 200
"""The most terms of a quotient. With roots and signs, a division may not end."""
_LITTLE = 1e-9


class CancelledFactors(Ratios):
    """The arithmetic described in the module's docstring."""

    def __init__(self, *, most_work: int) -> None:
        super().__init__(most_work=most_work)
        self._numbers = random.Random(0)
        self._weights: dict[object, float] = {}  # of symbols, and of terms of exponents
        self._ranks: dict[Term, float] = {}

    def add(self, a: Element, b: Element) -> Element:
        if not isinstance(a, Ratio) or not isinstance(b, Ratio) or a.bottom == b.bottom:
            return super().add(a, b)
        for x, y in ((a, b), (b, a)):
            if x.bottom is None or y.bottom is None or len(x.bottom) >= len(y.bottom):
                continue
            rest = self._divided(y.bottom, x.bottom)
            if rest is not None:
                top = self._sum(self._product(x.top, rest), y.top)
                fewer = self._divided(top, x.bottom)
                return self._make(top, y.bottom) if fewer is None else self._make(fewer, rest)
        return super().add(a, b)

    def mul(self, a: Element, b: Element) -> Element:
        if isinstance(a, Ratio) and isinstance(b, Ratio):
            for x, y in ((a, b), (b, a)):
                if x.bottom is None:
                    continue
                if (rest := self._divided(y.top, x.bottom)) is not None:
                    return super().mul(Ratio(x.top), self._make(rest, y.bottom))
                if (rest := self._divided(x.bottom, y.top)) is not None:
                    one = self._make({ONE: 1}, y.bottom)
                    return super().mul(self._make(x.top, rest), one)
        return super().mul(a, b)

    def _divided(self, a: Sum, b: Sum) -> Sum | None:
        """Return ``q`` with ``a == q b`` for sums of several terms, or None."""
        if not 1 < len(b) < len(a):
            return None
        lead = max(b, key=self._rank)
        inverse = self._inverse_term(lead, b[lead])
        least = self._rank(min(a, key=self._rank)) - self._rank(min(b, key=self._rank)) - _LITTLE
        rest, quotient = a, dict[Term, Number]()
        for _ in range(_MOST_STEPS):
            if not rest:
                return quotient
            first = max(rest, key=self._rank)
            step = self._product({first: rest[first]}, inverse)
            if self._rank(next(iter(step))) < least:
                return None
            quotient = self._sum(quotient, step)
            rest = self._sum(rest, self._product(self._product(step, b), {ONE: -1}))
        return None

    def _root_of_square(self, a: Sum) -> Sum | None:
        """Return ``r`` with ``a == r r`` for a sum of several terms, or None."""
        if len(a) < 3:
            return None
        lead = max(a, key=self._rank)
        root = self._root_of_term(lead, Fraction(a[lead]))
        if root is None:
            return None
        ((term, c),) = root.items()
        twice = self._inverse_term(term, 2 * c)
        least = self._rank(min(a, key=self._rank)) / 2 - _LITTLE
        rest = self._sum(a, self._product(self._product(root, root), {ONE: -1}))
        for _ in range(len(a)):
            if not rest:
                return root
            first = max(rest, key=self._rank)
            step = self._product({first: rest[first]}, twice)
            if self._rank(next(iter(step))) < least:
                return None
            more = self._sum(self._product(root, {ONE: 2}), step)
            rest = self._sum(rest, self._product(self._product(step, more), {ONE: -1}))
            root = self._sum(root, step)
        return None if rest else root

    def _root_of_term(self, term: Term, c: Fraction) -> Sum | None:
        exponent, monomial = term
        powers = self._monomials[monomial]
        numbers = [math.isqrt(abs(n)) for n in (c.numerator, c.denominator)]
        if Fraction(*numbers) ** 2 != c or any(p % 2 for _, p in powers):
            return None
        half = {t: Fraction(x) / 2 for t, x in self._exponents[exponent].items()}
        root = self._monomial(tuple((s, p // 2) for s, p in powers))
        found: Sum = {(self._exponent(dict[Term, Number](half)), root): Fraction(*numbers)}
        return found

    def _rank(self, term: Term) -> float:
        """Order terms as multiplication by a term does: the rank of a product is the sum of the
        ranks. Those of symbols are random numbers, so that two terms are hardly ever equal; if they
        are, a quotient may be missed."""
        if term not in self._ranks:
            exponent, monomial = term
            parts = [(t, float(c)) for t, c in self._exponents[exponent].items()]
            parts += [(symbol, float(power)) for symbol, power in self._monomials[monomial]]
            self._ranks[term] = sum(self._weight(key) * count for key, count in parts)
        return self._ranks[term]

    def _weight(self, key: object) -> float:
        if key not in self._weights:
            self._weights[key] = self._numbers.random()
        return self._weights[key]
