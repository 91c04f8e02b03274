"""Quotients of sums of exponentials, compared by cross-multiplication; and uninterpreted functions,
maxima and logarithms of them.

An uninterpreted function has one symbol for each argument, a maximum one for each set of arguments.
Arguments count as equal only if their normal forms look alike. A logarithm is not entirely
uninterpreted: factors ``e^c`` are moved out of it (:mod:`mirage.verify.arithmetic.logarithms`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.verify.arithmetic.interned_sums import MOST_WORK, ONE, InternedSums
from mirage.verify.arithmetic.logarithms import Sum, common_part

_MOST_POWER = 8
"""The largest power as which a multiple of a logarithm in an exponent is written."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """A quotient ``top / bottom`` in normal form; a missing bottom is 1."""

    top: Sum
    bottom: Sum | None = None


Element = Ratio | float
"""A quotient or a float; NaN means "undefined", and minus infinity is itself."""


class Ratios(InternedSums):
    """The arithmetic of elements. ``reciprocals_as_symbols`` writes ``1 / a`` as a symbol, after
    taking factors that are single terms out of ``a``, instead of clearing denominators. Fewer
    elements are recognised as equal then, but sums stay short where many different denominators
    meet.
    """

    def __init__(
        self,
        *,
        reciprocals_as_symbols: bool = False,
        fold: bool = False,
        most_work: int = MOST_WORK,
    ) -> None:
        super().__init__(fold=fold, most_work=most_work)
        self._reciprocals_as_symbols = reciprocals_as_symbols
        self._positives: set[int] = set()  # symbols that are positive numbers
        self._sets: dict[object, frozenset[object]] = {}
        self._logarithms: dict[int, Ratio] = {}  # the arguments of logarithms, by monomial

    def variable(self, name: object) -> Ratio:
        """Return the symbol with this name."""
        return Ratio(self._variable(name))

    def _make(self, top: Sum, bottom: Sum | None) -> Ratio:
        if bottom is not None and len(bottom) == 1:
            ((term, c),) = bottom.items()
            return Ratio(self._product(top, self._inverse_term(term, c)))
        return Ratio(top, bottom if top else None)

    def add(self, a: Element, b: Element) -> Element:
        """Return the sum of two elements."""
        if not isinstance(a, Ratio) or not isinstance(b, Ratio):
            return sum(x for x in (a, b) if not isinstance(x, Ratio))
        if not a.top or not b.top:
            return a if a.top else b
        if a.bottom is b.bottom or a.bottom == b.bottom:
            return self._make(self._sum(a.top, b.top), a.bottom)
        if a.bottom is not None and b.bottom is not None:
            factor = self._factor(b.bottom, a.bottom)
            if factor is not None:
                return self._make(self._sum(self._product(a.top, factor), b.top), b.bottom)
        left = a.top if b.bottom is None else self._product(a.top, b.bottom)
        right = b.top if a.bottom is None else self._product(b.top, a.bottom)
        return self._make(self._sum(left, right), self._bottoms(a, b))

    def mul(self, a: Element, b: Element) -> Element:
        """Return the product of two elements."""
        if not isinstance(a, Ratio) or not isinstance(b, Ratio):
            return math.nan
        for x, y in ((a, b), (b, a)):
            factor = None if x.bottom is None else self._multiple(y.top, x.bottom)
            if factor is not None:
                return self._make(self._product(x.top, factor), y.bottom)
        return self._make(self._product(a.top, b.top), self._bottoms(a, b))

    def _multiple(self, a: Sum, b: Sum) -> Sum | None:
        """:meth:`_factor` for terms in the same order; multiplication by a single term preserves
        the order."""
        if a is b or a == b:
            return {ONE: 1}
        if len(a) != len(b):
            return None
        (first, c), (term, d) = next(iter(b.items())), next(iter(a.items()))
        factor = self._product({term: d}, self._inverse_term(first, c))
        return factor if self._product(b, factor) == a else None

    def invert(self, a: Element) -> Element:
        """Return the reciprocal of an element; NaN for zero."""
        if not isinstance(a, Ratio) or not a.top:
            return math.nan
        if self._reciprocals_as_symbols and len(a.top) > 1:
            factor, rest = self._without_factor(a.top)
            symbol = self._symbol((UnaryFn.RECIPROCAL, frozenset(rest.items())))
            ((term, c),) = factor.items()
            return self._make(self._product(symbol.top, self._inverse_term(term, c)), None)
        return self._make(a.bottom or {ONE: 1}, a.top)

    def _bottoms(self, a: Ratio, b: Ratio) -> Sum | None:
        if a.bottom is None or b.bottom is None:
            return a.bottom or b.bottom
        return self._product(a.bottom, b.bottom)

    def same(self, a: Element, b: Element) -> bool:
        """Return whether two elements are equal; undefined elements never are."""
        if not isinstance(a, Ratio) or not isinstance(b, Ratio):
            return not isinstance(a, Ratio) and not isinstance(b, Ratio) and a == b
        d1, d2 = a.bottom or {ONE: 1}, b.bottom or {ONE: 1}
        if d1 == d2:
            return a.top == b.top
        factor = self._factor(d2, d1)
        if factor is not None:
            return self._product(a.top, factor) == b.top
        return self._product(a.top, d2) == self._product(b.top, d1)

    def _key(self, a: Element) -> object:
        """Return a key that is equal for elements with the same normal form; None for undefined
        elements."""
        if not isinstance(a, Ratio):
            return None
        if a.bottom is None:
            return frozenset(a.top.items())
        term, c = min(a.bottom.items())
        scale = self._inverse_term(term, c)
        return frozenset(self._product(a.top, scale).items()), frozenset(
            self._product(a.bottom, scale).items()
        )

    def negated(self, x: Element) -> Element:
        """Return ``-x``."""
        return -x if not isinstance(x, Ratio) else self.mul(x, Ratio({ONE: -1}))

    # ---- functions

    def _symbol(self, key: object) -> Ratio:
        return Ratio(self._function(key))

    def _apply(self, fn: object, *arguments: Element) -> Element:
        keys = tuple(map(self._key, arguments))
        return math.nan if None in keys else self._symbol((fn, keys))

    def _apply_in_any_order(self, fn: object, *arguments: Element) -> Element:
        """Apply a commutative uninterpreted function, like :meth:`_apply`."""
        keys = frozenset(map(self._key, arguments))
        return math.nan if None in keys else self._symbol((fn, keys))

    def _join(self, fn: BinaryFn, items: list[Element]) -> Element:
        finite = [x for x in items if isinstance(x, Ratio)]
        floats = [x for x in items if not isinstance(x, Ratio)]
        if any(x != -math.inf for x in floats):
            return math.nan
        if not finite or (floats and fn is BinaryFn.MIN):
            return -math.inf
        members: set[object] = set()
        for x in finite:
            key = self._key(x)
            members |= self._sets.get((fn, key), frozenset((key,)))
        first = self._key(finite[0])
        if self._sets.get((fn, first), frozenset((first,))) == frozenset(members):
            return finite[0]
        result = self._symbol((fn, frozenset(members)))
        self._sets[fn, self._key(result)] = frozenset(members)
        return result

    def _exp(self, x: Element) -> Element:
        """Return ``e^x``, with ``e^(n log(a) + b) = a^n e^b`` for numbers that are visibly
        positive (the logarithm of any other number stands for that of its magnitude)."""
        if not isinstance(x, Ratio):
            return Ratio({}) if x == -math.inf else math.nan
        if x.bottom is not None or any(e for e, _ in x.top):
            return self._apply(UnaryFn.EXP, x)
        powers = {t: c for t, c in x.top.items() if t[1] in self._logarithms}
        powers = {t: int(c) for t, c in powers.items() if c == int(c) and abs(c) <= _MOST_POWER}
        rest = {t: c for t, c in x.top.items() if t not in powers} if powers else x.top
        found: Element = Ratio({(self._exponent(rest), 0): 1})
        for (_, monomial), power in powers.items():
            number: Element = self._logarithms[monomial]
            number = number if power > 0 else self.invert(number)
            for _ in range(abs(power)):
                found = self.mul(found, number)
        return found

    def _log(self, x: Element) -> Element:
        """Return ``log(x)`` by ``log(e^c n / (e^d m)) = c - d + log(n / m)``. The last term becomes
        ``log(n) - log(m)`` if ``n`` or ``m`` is certainly positive.
        """
        if not isinstance(x, Ratio) or not x.top:
            return math.nan
        power, top = self._without_power(x.top)
        bottom = x.bottom
        if bottom is not None:
            below, bottom = self._without_power(bottom)
            power = self.add(power, self.negated(below))
        rest = self._make(top, bottom)
        if rest.bottom is None or not (self._positive(rest.top) or self._positive(rest.bottom)):
            return self.add(power, self._log_symbol(rest))
        above, below = (self._log_symbol(Ratio(a)) for a in (rest.top, rest.bottom))
        return self.add(power, self.add(above, self.negated(below)))

    def _log_symbol(self, a: Ratio) -> Element:
        if a.bottom is None and a.top == {ONE: 1}:
            return Ratio({})
        found = self._apply(UnaryFn.LOG, a)
        if isinstance(found, Ratio) and self._positive(a.top) and self._positive(a.bottom or {}):
            ((term, _),) = found.top.items()
            self._logarithms[term[1]] = a
        return found

    def _positive(self, a: Sum) -> bool:
        """Return whether ``a`` is visibly a sum of positive multiples of exponentials."""
        return all(
            c > 0 and all(s in self._positives for s, _ in self._monomials[m])
            for (_, m), c in a.items()
        )

    def _without_power(self, a: Sum) -> tuple[Ratio, Sum]:
        """Return ``(c, r)`` with ``a == e^c r``."""
        exponents = {e: self._exponents[e] for e, _ in a}
        self._worked(sum(map(len, exponents.values())))
        common = common_part(list(exponents.values()), self._monomials.__getitem__, self._functions)
        if not common:
            return Ratio({}), a
        rests = {
            e: self._exponent({t: c for t, c in x.items() if t not in common})
            for e, x in exponents.items()
        }
        return Ratio(common), {(rests[e], m): c for (e, m), c in a.items()}
