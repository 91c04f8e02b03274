"""Sums of formal exponentials ``c e^l``, with coefficients ``c`` modulo one prime and exponents
``l`` modulo another, and quotients of such sums (:mod:`mirage.verify.arithmetic.formal` says what
they show)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mirage.verify.arithmetic.primes import Primes

Terms = dict[int, int]
_MAX_TERMS = 200_000


class TooLarge(ArithmeticError):
    """A product of sums of exponentials has too many terms, or their logarithm is taken."""


@dataclass(frozen=True)
class Quotient:
    """A quotient ``numerator / denominator`` of sums of ``coefficient * e^exponent``, each a map
    from exponents to coefficients; a missing denominator is 1.
    """

    numerator: Terms
    denominator: Terms | None = None


Element = int | float | Quotient
"""A residue, a quotient, or a float: NaN for "undefined", minus infinity."""


class GroupRing:
    """The arithmetic of elements."""

    def __init__(self, primes: Primes) -> None:
        self.primes = primes

    def add(self, a: Element, b: Element) -> Element:
        """Return the sum of two elements."""
        if isinstance(a, float) or isinstance(b, float):
            return add_floats(a, b)
        if isinstance(a, int) and isinstance(b, int):
            return (a + b) % self.primes.p
        if isinstance(a, int):
            a, b = b, a
        assert isinstance(a, Quotient)
        if isinstance(b, int):
            if b == 0:
                return a
            scaled = (
                {0: b}
                if a.denominator is None
                else {l: c * b % self.primes.p for l, c in a.denominator.items()}
            )
            return self._make(self._sum(a.numerator, scaled), a.denominator)
        if a.denominator is b.denominator or a.denominator == b.denominator:
            return self._make(self._sum(a.numerator, b.numerator), a.denominator)
        if a.denominator is not None and b.denominator is not None:
            unit = self._ratio(b.denominator, a.denominator)
            if unit is not None:
                return self._make(
                    self._sum(self._times(a.numerator, *unit), b.numerator), b.denominator
                )
        left = a.numerator if b.denominator is None else self._product(a.numerator, b.denominator)
        right = b.numerator if a.denominator is None else self._product(b.numerator, a.denominator)
        return self._make(self._sum(left, right), self._denominators(a, b))

    def mul(self, a: Element, b: Element) -> Element:
        """Return the product of two elements."""
        if isinstance(a, float) or isinstance(b, float):
            return math.nan
        if isinstance(a, int) and isinstance(b, int):
            return a * b % self.primes.p
        if isinstance(a, int):
            a, b = b, a
        assert isinstance(a, Quotient)
        if isinstance(b, int):
            if b == 0:
                return 0
            return Quotient(
                {l: c * b % self.primes.p for l, c in a.numerator.items()}, a.denominator
            )
        if a.denominator is not None and a.denominator == b.numerator:
            return self._make(a.numerator, b.denominator)
        if b.denominator is not None and b.denominator == a.numerator:
            return self._make(b.numerator, a.denominator)
        return self._make(self._product(a.numerator, b.numerator), self._denominators(a, b))

    def invert(self, a: Element) -> Element:
        """Return the reciprocal of an element; NaN for zero."""
        if isinstance(a, float) or a == 0:
            return math.nan
        if isinstance(a, int):
            return pow(a, -1, self.primes.p)
        return self._make(a.denominator or {0: 1}, a.numerator)

    def same(self, a: Element, b: Element) -> bool:
        """Return whether two elements are equal; undefined elements never are."""
        if isinstance(a, float) or isinstance(b, float):
            return a == b
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        first = a if isinstance(a, Quotient) else Quotient({0: a} if a else {})
        second = b if isinstance(b, Quotient) else Quotient({0: b} if b else {})
        d1, d2 = first.denominator or {0: 1}, second.denominator or {0: 1}
        unit = self._ratio(d2, d1)
        if unit is not None:
            return self._times(first.numerator, *unit) == second.numerator
        return self._product(first.numerator, d2) == self._product(second.numerator, d1)

    def _denominators(self, a: Quotient, b: Quotient) -> Terms | None:
        if a.denominator is None or b.denominator is None:
            return a.denominator or b.denominator
        return self._product(a.denominator, b.denominator)

    def _make(self, numerator: Terms, denominator: Terms | None) -> Element:
        if not numerator:
            return 0
        if denominator is not None and len(denominator) == 1:
            ((l, c),) = denominator.items()
            numerator = self._times(numerator, -l, pow(c, -1, self.primes.p))
            denominator = None
        if denominator is None and len(numerator) == 1 and 0 in numerator:
            return numerator[0]
        return Quotient(numerator, denominator)

    def _sum(self, a: Terms, b: Terms) -> Terms:
        result = dict(a)
        for l, c in b.items():
            total = (result.get(l, 0) + c) % self.primes.p
            if total:
                result[l] = total
            else:
                result.pop(l, None)
        return result

    def _times(self, a: Terms, exponent: int, factor: int) -> Terms:
        p, q = self.primes.p, self.primes.q
        return {(l + exponent) % q: c * factor % p for l, c in a.items()}

    def _product(self, a: Terms, b: Terms) -> Terms:
        if len(a) * len(b) > _MAX_TERMS:
            raise TooLarge(f"a product of sums of {len(a)} and {len(b)} exponentials")
        p, q = self.primes.p, self.primes.q
        result: Terms = {}
        for l, c in a.items():
            for m, d in b.items():
                key = (l + m) % q
                result[key] = (result.get(key, 0) + c * d) % p
        return {l: c for l, c in result.items() if c}

    def _ratio(self, a: Terms, b: Terms) -> tuple[int, int] | None:
        """Return ``(l, c)`` with ``a == c e^l b``, or None if there is no such pair."""
        if len(a) != len(b):
            return None
        if a is b or a == b:
            return 0, 1
        p, q = self.primes.p, self.primes.q
        (m, d), *rest = b.items()
        for l, c in a.items():
            exponent, factor = (l - m) % q, c * pow(d, -1, p) % p
            if all(a.get((n + exponent) % q) == e * factor % p for n, e in rest):
                return exponent, factor
        return None


def add_floats(a: Element, b: Element) -> Element:
    """Add elements of which at least one is a float: minus infinity absorbs all but plus infinity
    and NaN."""
    values = [x for x in (a, b) if isinstance(x, float)]
    return sum(values)
