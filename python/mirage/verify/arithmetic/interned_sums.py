"""Sums of terms ``c * monomial * e^(polynomial)`` in normal form: like terms are collected,
monomials and exponents are interned, so that two sums are equal exactly if they look equal.

Monomials are Laurent monomials (negative powers allowed) in symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from mirage.verify.arithmetic.logarithms import Number, Powers, Sum, Term

_MAX_TERMS = 60_000
MOST_WORK = 40 * _MAX_TERMS  # products of terms
LITTLE_WORK = 200_000  # for attempts that other attempts can follow
_SHORT = 8  # terms of sums that are written out in any product
_COPIED = 8  # terms that are copied in the time of a product
ONE: Term = (0, 0)


class NoProof(ArithmeticError):
    """The symbolic calculation cannot go on: too large, or outside its language."""


class InternedSums:
    """Sums and their arithmetic. ``fold``: a product of two long sums is not expanded; instead each
    sum becomes a symbol, the same one for sums that are equal up to a factor. The calculation gives
    up after ``most_work`` products of terms.
    """

    def __init__(self, *, fold: bool = False, most_work: int = MOST_WORK) -> None:
        self._most_work = most_work
        self._fold = fold
        self._symbols: dict[object, int] = {}
        self._functions: set[int] = set()  # symbols that are values of functions
        self._monomials: list[Powers] = [()]
        self._monomial_ids: dict[Powers, int] = {(): 0}
        self._products: dict[tuple[int, int], int] = {}
        self._exponents: list[Sum] = [{}]
        self._exponent_ids: dict[frozenset[tuple[Term, Number]], int] = {frozenset(): 0}
        self._exponent_sums: dict[tuple[int, int], int] = {}
        self._arguments: dict[object, int] = {}
        self.work = 0  # products of terms so far
        self.folded = False  # whether sums were written as symbols

    # ---- symbols

    def _variable(self, name: object) -> Sum:
        symbol = self._symbols.setdefault(name, len(self._symbols))
        return {(0, self._monomial(((symbol, 1),))): 1}

    def _function(self, key: object) -> Sum:
        """Return the symbol for the value of an uninterpreted function, which is identified by
        ``key``."""
        name = ("f", self._arguments.setdefault(key, len(self._arguments)))
        value = self._variable(name)
        self._functions.add(self._symbols[name])
        return value

    # ---- interned monomials and exponents

    def _monomial(self, powers: Powers) -> int:
        found = self._monomial_ids.setdefault(powers, len(self._monomials))
        if found == len(self._monomials):
            self._monomials.append(powers)
        return found

    def _times(self, a: int, b: int) -> int:
        """Return the product of two monomials."""
        if a == 0 or b == 0:
            return a or b
        key = (a, b) if a < b else (b, a)
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self._multiply(self._monomials[a], self._monomials[b])
        return found

    def _multiply(self, a: Powers, b: Powers) -> int:
        if a[-1][0] < b[0][0]:
            return self._monomial(a + b)
        if b[-1][0] < a[0][0]:
            return self._monomial(b + a)
        powers = dict(a)
        for name, power in b:
            powers[name] = powers.get(name, 0) + power
        return self._monomial(tuple(sorted(item for item in powers.items() if item[1])))

    def _exponent(self, terms: Sum) -> int:
        key = frozenset(terms.items())
        if key not in self._exponent_ids:
            self._exponent_ids[key] = len(self._exponents)
            self._exponents.append(terms)
        return self._exponent_ids[key]

    def _join_exponents(self, a: int, b: int) -> int:
        if a == 0 or b == 0:
            return a or b
        key = (a, b) if a < b else (b, a)
        if key not in self._exponent_sums:
            self._exponent_sums[key] = self._exponent(
                self._sum(self._exponents[a], self._exponents[b])
            )
        return self._exponent_sums[key]

    # ---- sums

    def _sum(self, a: Sum, b: Sum) -> Sum:
        self._worked((len(a) + len(b)) // _COPIED)
        result = dict(a)
        for term, c in b.items():
            total = result.get(term, 0) + c
            if total:
                result[term] = total
            else:
                del result[term]
        return result

    def _worked(self, amount: int) -> None:
        self.work += amount
        if self.work > self._most_work:
            raise NoProof(f"more than {self._most_work} products of terms")

    def _product(self, a: Sum, b: Sum) -> Sum:
        if self._fold and min(len(a), len(b)) > _SHORT and len(a) * len(b) > _SHORT**3:
            a, b = self._folded(a), self._folded(b)
        if len(a) * len(b) > _MAX_TERMS:
            raise NoProof(f"products of sums of {len(a)} and {len(b)} terms")
        if a is b and len(a) > 1:
            self._worked(len(a) * (len(a) + 1) // 2)
            return self._square(a)
        self._worked(len(a) * len(b))
        if len(b) == 1:
            a, b = b, a
        if len(a) == 1 and ONE in a:
            factor = a[ONE]
            return b if factor == 1 else {t: c * factor for t, c in b.items()}
        result: Sum = {}
        for (e1, m1), c1 in a.items():
            for (e2, m2), c2 in b.items():
                term = (self._join_exponents(e1, e2), self._times(m1, m2))
                known = result.get(term)
                result[term] = c1 * c2 if known is None else known + c1 * c2
        return {t: c for t, c in result.items() if c}

    def _folded(self, a: Sum) -> Sum:
        """Write ``a`` as a single term: its factor times a symbol for the rest."""
        self.folded = True
        self._worked(len(a))
        factor, rest = self._without_factor(a)
        return self._product(factor, self._function(("sum", frozenset(rest.items()))))

    def _square(self, a: Sum) -> Sum:
        """Return ``a * a``, visiting each pair of terms once."""
        result: Sum = {}
        before: list[tuple[Term, Number]] = []
        for (e1, m1), c1 in a.items():
            for (e2, m2), twice in before:
                term = (self._join_exponents(e1, e2), self._times(m1, m2))
                known = result.get(term)
                result[term] = c1 * twice if known is None else known + c1 * twice
            term = (self._join_exponents(e1, e1), self._times(m1, m1))
            result[term] = result.get(term, 0) + c1 * c1
            before.append(((e1, m1), 2 * c1))
        return {t: c for t, c in result.items() if c}

    def _inverse_term(self, term: Term, c: Number) -> Sum:
        exponent, monomial = term
        powers = tuple((n, -p) for n, p in self._monomials[monomial])
        negated = self._exponent({t: -x for t, x in self._exponents[exponent].items()})
        return {(negated, self._monomial(powers)): Fraction(1) / c}

    def _without_factor(self, a: Sum) -> tuple[Sum, Sum]:
        """Return ``(f, r)`` with ``a == f r``, where ``f`` is a single term and ``r`` is the same
        for all multiples of ``a`` by single terms.
        """
        term = self._leading(a)
        return {term: a[term]}, self._product(a, self._inverse_term(term, a[term]))

    def _leading(self, a: Sum) -> Term:
        """Return the largest term in an order that multiplication by a single term preserves. The
        order compares the coefficients in the exponent and then the powers, each lexicographically.
        """
        exponents = [(t, self._exponents[t[0]]) for t in a]
        leading = _largest(exponents)
        (term,) = _largest([(t, dict(self._monomials[t[1]])) for t in leading])
        return term

    def _factor(self, a: Sum, b: Sum) -> Sum | None:
        """Return a single term ``f`` with ``a == f b``, or None if there is none."""
        if len(a) != len(b):
            return None
        first, c = next(iter(b.items()))
        for term, d in a.items():
            factor = self._product({term: d}, self._inverse_term(first, c))
            if self._product(b, factor) == a:
                return factor
            if len(a) > 64:
                return None
        return None


def _largest(vectors: Sequence[tuple[Term, Mapping[Any, Number]]]) -> list[Term]:
    """Return the terms whose vectors are lexicographically largest; missing entries count as
    zero."""
    left = list(vectors)
    for place in sorted({place for _, vector in left for place in vector}):
        if len(left) == 1:
            break
        most = max(vector.get(place, 0) for _, vector in left)
        left = [item for item in left if item[1].get(place, 0) == most]
    return [term for term, _ in left]
