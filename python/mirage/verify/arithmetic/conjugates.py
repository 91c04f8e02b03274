"""Conjugates: sums with a square root of the opposite sign.

``(a + b r) (a - b r) = a^2 - b^2 r^2``, where no root is left. So roots can be cleared from
divisors, ``x^2 / (r + 1) = r - 1`` if ``r^2 = x^2 + 1``. If a sum times its conjugate is a single
term, the logarithm of one follows from that of the other: ``log(r - x) = -log(r + x)``.
"""

from __future__ import annotations

from collections.abc import Collection

from mirage.verify.arithmetic.interned_sums import ONE, InternedSums
from mirage.verify.arithmetic.logarithms import Sum
from mirage.verify.arithmetic.ratios import Ratio

_MOST_TERMS = 40
"""The most terms of a sum whose conjugate is taken: a product has up to the square of them."""


class Conjugates(InternedSums):
    """Sums with roots: symbols whose squares are known."""

    _roots: dict[int, Sum]

    def _roots_in(self, a: Sum) -> list[int]:
        """Return the square roots that occur once in some terms of ``a``, and not in others."""
        if not self._roots or not 1 < len(a) <= _MOST_TERMS:
            return []
        terms = [dict(self._monomials[m]) for _, m in a]
        every = sorted({s for powers in terms for s in powers if s in self._roots})
        return [s for s in every if {powers.get(s, 0) for powers in terms} == {0, 1}]

    def _with_whole_roots(self, a: Sum) -> tuple[Sum, dict[int, int]]:
        """Return ``a`` times powers of roots so that none has a negative power, and these
        powers."""
        powers: dict[int, int] = {}
        for _, m in a if self._roots and len(a) > 1 else ():
            for s, p in self._monomials[m]:
                if p < 0 and s in self._roots:
                    powers[s] = max(powers.get(s, 0), -p)
        for s, p in powers.items():
            a = self._product(a, {(0, self._monomial(((s, p),))): 1})
        return a, powers

    def _with_root(self, a: Sum, root: int) -> tuple[Sum, Sum]:
        """Return the terms of ``a`` without a root, and those with it."""
        has = {t: any(s == root for s, _ in self._monomials[t[1]]) for t in a}
        return {t: c for t, c in a.items() if not has[t]}, {t: c for t, c in a.items() if has[t]}

    def _conjugate(self, a: Sum, root: int) -> Sum:
        without, with_ = self._with_root(a, root)
        return self._sum(without, {t: -c for t, c in with_.items()})

    def _without_roots_below(self, x: Ratio) -> tuple[Sum, Sum]:
        """Return the numerator and the denominator of a quotient, the latter cleared of one root
        that occurs once in it. (Small programs count the indices of squares of arguments, which are
        enough for one.)"""
        top, bottom = x.top, x.bottom or {ONE: 1}
        roots = self._roots_in(bottom)
        if not roots or len(top) > _MOST_TERMS:
            return top, bottom
        other = self._conjugate(bottom, roots[0])
        product = self._product(bottom, other)
        return (self._product(top, other), product) if product else (top, bottom)

    def _by_conjugate(self, a: Sum, but: Collection[int]) -> tuple[int, Sum, Sum] | None:
        """Return a root, a term ``n`` and a sum ``b`` with ``a = n / b``, if ``b`` is preferred: in
        it the first terms with the root, and without it, have the same sign. ``but`` are roots that
        are not tried."""
        for root in self._roots_in(a):
            without, with_ = self._with_root(a, root)
            first, second = without[self._leading(without)], with_[self._leading(with_)]
            if root in but or (first > 0) == (second > 0):
                continue
            other = self._conjugate(a, root)
            norm = self._product(a, other)
            if len(norm) == 1:
                return root, norm, other
        return None
