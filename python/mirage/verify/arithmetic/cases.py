"""Symbolic arithmetic in one case, that is, with the signs of some sums known.

In a case a comparison is a number, a maximum is one of its two arguments, and a magnitude is a
number or its negative; the signs decide which. If several are possible, evaluation stops with
:class:`Open`, and the caller continues with each of the possible cases. Together these cover
everything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.interned_sums import ONE, NoProof
from mirage.verify.arithmetic.known_functions import element_of, number_of
from mirage.verify.arithmetic.linear_signs import Form, can_be
from mirage.verify.arithmetic.logarithms import Sum
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects
from mirage.verify.arithmetic.pairwise_maxima import pairwise_maxima
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.whole_parts import Floors

_UNIT = (0, 0)
_MOST_ZEROS = 3
"""The most symbols that are not negative for which zero is tried; the others may have any sign."""
_HOLDS = {
    BinaryFn.LT: (-1,),
    BinaryFn.LE: (-1, 0),
    BinaryFn.EQ: (0,),
    BinaryFn.NE: (-1, 1),
}


class Open(NoProof):
    """The sign of a sum is not known."""

    def __init__(self, form: Sum, signs: Sequence[int]) -> None:
        super().__init__("a sign is not known")
        self.form, self.signs = form, signs


class Impossible(NoProof):
    """No real numbers have the signs of the case."""


class Cases(Floors):
    """The domain described in the module's docstring. ``signed`` are sums and their signs (-1, 0 or
    1), ``truths`` the symbols that are 0 or 1, ``positive`` and ``not_negative`` other symbols with
    known signs."""

    def __init__(self, *, most_work: int) -> None:
        super().__init__(most_work=most_work)
        self.signed: list[tuple[Sum, int]] = []
        self.truths: set[int] = set()
        self.not_negative: set[int] = set()
        self.positive: set[int] = set()

    # ---- signs -----------------------------------------------------------------------------------

    def sign(self, a: Element) -> int | None:
        """Return the sign of an element, or None if the element is not a number. Raise
        :class:`Open`."""
        if not isinstance(a, Ratio):
            return -1 if a == -math.inf else None
        sign = self._sign_of_sum(a.top)
        if a.bottom is None or sign == 0:
            return sign
        below = self._sign_of_sum(a.bottom)
        return sign * below if below else None

    def _sign_of_sum(self, a: Sum) -> int:
        if not a:
            return 0
        if len(a) == 1:
            (((_, monomial), c),) = a.items()
            sign = 1 if c > 0 else -1
            for symbol, power in self._monomials[monomial]:
                each = self._sign_of_symbol(symbol)
                sign *= each if power % 2 else abs(each)
            return sign
        if len(a) == 2 and (difference := self._of_exponents(a)) is not None:
            return self._sign_of_sum(difference)
        cleared = self._without_divisors(a)
        if cleared is not a:
            return self._sign_of_sum(cleared)
        factor, rest = self._common_factor(a)
        return self._sign_of_sum(factor) * self._sign_of_sum(rest) if factor else self._decided(a)

    def _common_factor(self, a: Sum) -> tuple[Sum, Sum]:
        """Return the symbols that all terms have in common, with the least of their powers, and the
        rest of the sum; nothing if there are none."""
        powers = [dict(self._monomials[monomial]) for _, monomial in a]
        common = {s: min(p.get(s, 0) for p in powers) for s in powers[0]}
        common = {s: p for s, p in common.items() if p > 0}
        if not common:
            return {}, a
        factor: Sum = {(0, self._monomial(tuple(sorted(common.items())))): 1}
        ((term, c),) = factor.items()
        return factor, self._product(a, self._inverse_term(term, c))

    def _without_divisors(self, a: Sum) -> Sum:
        """Return a sum times its divisors that are not negative: since they are not zero either,
        the sign stays the same."""
        powers: dict[int, int] = {}
        for _, monomial in a:
            for symbol, power in self._monomials[monomial]:
                if power < 0 and symbol in self.positive | self.not_negative:
                    powers[symbol] = max(powers.get(symbol, 0), -power)
        if not powers:
            return a
        divisors = Ratio({(0, self._monomial(tuple(sorted(powers.items())))): 1})
        found = self.mul(Ratio(a), divisors)
        return found.top if isinstance(found, Ratio) and found.bottom is None else a

    def is_whole(self, a: Sum) -> bool:
        if not a:
            return True
        signs = [s for s in (1, 0) if self._can_be([*self._known(a), (_form(a), s)])]
        if not signs:
            raise Impossible("no numbers have these signs")
        if len(signs) > 1:
            raise Open(a, signs)
        return signs[0] == 0

    def _sign_of_symbol(self, symbol: int) -> int:
        if symbol in self._positives:
            return 1
        return self._decided(self._of_itself(symbol))

    def _of_itself(self, symbol: int) -> Sum:
        return {(0, self._monomial(((symbol, 1),))): 1}

    def _of_exponents(self, a: Sum) -> Sum | None:
        """Return ``x - y`` for ``c (e^x - e^y)``, multiplied by the sign of ``c``."""
        ((first, c), (second, d)) = sorted(a.items())
        if c != -d or first[1] or second[1]:
            return None
        x, y = (Ratio(dict(self._exponents[e])) for e in (first[0], second[0]))
        found = self.add(x, self.mul(y, element_of(-1)))
        found = self.mul(found, element_of(1 if c > 0 else -1))
        return found.top if isinstance(found, Ratio) and found.bottom is None else None

    def _decided(self, a: Sum) -> int:
        known = self._known(a)
        signs = [s for s in (1, -1, 0) if self._can_be([*known, (_form(a), s)])]
        if not signs:
            raise Impossible("no numbers have these signs")
        if len(signs) > 1:
            raise Open(a, signs)
        return signs[0]

    def _known(self, a: Sum) -> list[tuple[Form, int]]:
        return [*((_form(form), s) for form, s in self.signed), *self._facts(a)]

    def _can_be(self, known: Sequence[tuple[Form, int]]) -> bool:
        """Return False only if the forms cannot have these signs, whichever of the symbols that are
        not negative are zero."""
        rests = map(_form, self.fractions([dict(form) for form, _ in known]))
        symbols = (_form(self._of_itself(s)) for s in sorted(self.not_negative))
        least = [*rests, *symbols][:_MOST_ZEROS]
        cases = product((1, 0), repeat=len(least))
        return any(can_be([*known, *zip(least, signs, strict=True)]) for signs in cases)

    def _facts(self, a: Sum) -> list[tuple[Form, int]]:
        """Return what holds for terms in every case: exponentials are positive, and so are some
        symbols. (Squares are not negative, but that does not give their sign.)"""
        terms = {t for form in (a, *(known for known, _ in self.signed)) for t in form}
        exponentials = [({t: Fraction(1)}, 1) for t in terms if t[0] and not t[1]]
        forms = [a, *(form for form, _ in self.signed)]
        below = (self._sum({ONE: 1}, self._product(f, {ONE: -1})) for f in self.fractions(forms))
        return [
            *exponentials,
            *((_form(form), 1) for form in below),
            *((_form(self._of_itself(s)), 1) for s in self.positive),
        ]

    # ---- functions -------------------------------------------------------------------------------

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.ABS:
            return (map_elements(self._magnitude, x[0]),)
        if fn is UnaryFn.RELU:
            zero = element_of(0)
            return (map_elements(lambda v: self._larger(v, zero), x[0]),)
        if fn in (UnaryFn.NOT, UnaryFn.BIAS):
            x = (map_elements(self._as_truth, x[0]),)
        return super().unary(fn, x, dtype)

    def _magnitude(self, a: Element) -> Element:
        sign = self.sign(a)
        if sign is None or not isinstance(a, Ratio):
            return math.nan
        return self.mul(a, element_of(-1)) if sign < 0 else a

    def _as_truth(self, a: Element) -> Element:
        """Return an element as a truth value: 0 or 1."""
        if number_of(a) is not None or not isinstance(a, Ratio):
            return a
        return element_of(int(self.sign(a) != 0))

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.MAX or fn is BinaryFn.MIN:
            least = fn is BinaryFn.MIN
            choose = self._smaller if least else self._larger
            return (as_array(np.frompyfunc(choose, 2, 1)(a[0], b[0])),)
        if fn in _HOLDS:
            return (as_array(np.frompyfunc(lambda x, y: self._holds(fn, x, y), 2, 1)(a[0], b[0])),)
        if fn in (BinaryFn.AND, BinaryFn.OR, BinaryFn.XOR):
            a, b = ((map_elements(self._as_truth, v[0]),) for v in (a, b))
        if fn is BinaryFn.KEEP:
            a = (map_elements(self._as_truth, a[0]),)
        return super().binary(fn, a, b, dtype)

    def _difference(self, x: Element, y: Element) -> Element:
        return self.add(x, self.mul(y, element_of(-1)))

    def _larger(self, x: Element, y: Element) -> Element:
        return self._chosen(x, y, 1)

    def _smaller(self, x: Element, y: Element) -> Element:
        return self._chosen(x, y, -1)

    def _chosen(self, x: Element, y: Element, direction: int) -> Element:
        for one, other in ((x, y), (y, x)):
            if not isinstance(one, Ratio):
                if one != -math.inf:
                    return math.nan
                return other if direction > 0 else one
        sign = self.sign(self._difference(x, y))
        if sign is None:
            return math.nan
        return x if sign * direction >= 0 else y

    def _holds(self, fn: BinaryFn, x: Element, y: Element) -> Element:
        if isinstance(x, Ratio) and isinstance(y, Ratio):
            sign = self.sign(self._difference(x, y))
        elif any(isinstance(v, float) and math.isnan(v) for v in (x, y)):
            return math.nan
        else:
            sign = (y == -math.inf) - (x == -math.inf)
            sign = {0: 0, 1: 1, -1: -1}[int(sign)]
        return math.nan if sign is None else element_of(int(sign in _HOLDS[fn]))

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is ReduceFn.SUM:
            return super().reduce(fn, x, dims, dtype)
        return pairwise_maxima(self, x, dims, dtype)

    # ---- sums that are zero ----------------------------------------------------------------------

    def solved(self, a: Sum, own: Collection[int]) -> tuple[int, Ratio] | None:
        """Solve "the sum is zero" for a symbol among ``own`` (the symbols of inputs). Return the
        symbol and its value, or None. The sum must be linear in the symbol, which must not occur
        elsewhere in it."""
        for (exponent, monomial), c in a.items():
            powers = self._monomials[monomial]
            if exponent or len(powers) != 1 or powers[0][1] != 1 or powers[0][0] not in own:
                continue
            symbol = powers[0][0]
            rest = {t: x for t, x in a.items() if t != (exponent, monomial)}
            if any(e or symbol in dict(self._monomials[m]) for e, m in rest):
                continue
            if any(s not in own for _, m in rest for s, _ in self._monomials[m]):
                continue
            found = self.mul(Ratio(rest), element_of(Fraction(-1) / Fraction(c)))
            if isinstance(found, Ratio):
                return symbol, found
        return None

    def of_symbol(self, symbol: int) -> Ratio:
        return Ratio({(0, self._monomial(((symbol, 1),))): 1})

    def symbol_of(self, a: Element) -> int | None:
        """Return the symbol that an element consists of, or None."""
        if not isinstance(a, Ratio) or a.bottom is not None or len(a.top) != 1:
            return None
        (((exponent, monomial), c),) = a.top.items()
        powers = self._monomials[monomial]
        return (
            powers[0][0] if c == 1 and not exponent and len(powers) == 1 == powers[0][1] else None
        )

    def symbols_in(self, a: Element) -> set[int]:
        """Return the symbols that occur in an element."""
        if not isinstance(a, Ratio):
            return set()
        terms = (*a.top, *(a.bottom or ()))
        return {s for _, m in terms for s, _ in self._monomials[m]}

    def is_polynomial(self, a: Sum) -> bool:
        """Return whether a sum has no exponentials and no negative powers."""
        return all(not e and all(p > 0 for _, p in self._monomials[m]) for e, m in a)

    def replaced(self, a: Ratio, instead: Mapping[int, Ratio]) -> Element:
        """Substitute other elements for symbols in a polynomial."""
        result: Element = element_of(0)
        for (_, monomial), c in a.top.items():
            term: Element = element_of(Fraction(c))
            for symbol, power in self._monomials[monomial]:
                new = instead.get(symbol)
                x: Element = self.of_symbol(symbol) if new is None else self.replaced(new, instead)
                for _ in range(power):
                    term = self.mul(term, x)
            result = self.add(result, term)
        return result

    def symbols(self, name: object, shape: tuple[int, ...]) -> list[int]:
        """Return the symbols that stand for the elements of an input."""
        return [self._symbols[name, i] for i in range(math.prod(shape))]

    def given(self, elements: Sequence[Element], shape: tuple[int, ...]) -> Planes:
        """Make a tensor of the given elements."""
        return (objects(list(elements), shape),)


def _form(a: Sum) -> Form:
    return {t: Fraction(c) for t, c in a.items()}
