"""Symbolic arithmetic that also knows signs: magnitudes and square roots.

A magnitude is its argument times a *sign*, a symbol whose square is 1: ``|t| = s t``. Arguments
that are equal up to a factor share it: ``|c t| = |c| |t|``; the sign of a single term is the
product of the signs of its symbols. Alternatively, a calculation is repeated with each sign fixed
to 1 and to -1. A square root is a symbol whose square is the argument; factors that are certainly
not negative come out. A logarithm is taken of the magnitude, which makes no difference wherever it
is defined, and so becomes a sum over factors; roots are cleared from its divisors.
``docs/verification.md`` has the argument.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import DType, UnaryFn
from mirage.verify.arithmetic.cancelled_factors import CancelledFactors
from mirage.verify.arithmetic.conjugates import Conjugates
from mirage.verify.arithmetic.interned_sums import NoProof
from mirage.verify.arithmetic.logarithms import Number, Powers, Sum, Term
from mirage.verify.arithmetic.object_arrays import map_elements
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.symbolic import Symbolic

UNIT = (0, 0)
"""The term of a number."""
_LARGEST_PRIME = 1000


class AnotherSign(NoProof):
    """A calculation needs a sign beyond those that were given."""


class RealNumbers(CancelledFactors, Conjugates, Symbolic):
    """The domain described in the module's docstring. ``signs`` are the signs of magnitudes, in the
    order in which these occur; if there are more of them, :class:`AnotherSign` is raised. Without
    ``signs``, signs are symbols."""

    def __init__(self, *, most_work: int, signs: Sequence[int] | None = None) -> None:
        self._given = signs
        self._met: dict[object, int] = {}
        self._known: set[int] = set()  # symbols that are not negative
        self._signs: set[int] = set()
        self._sign_of: dict[int, int] = {}  # the symbol of the sign of a symbol
        self._roots: dict[int, Sum] = {}  # the radicand of each symbol that is a square root
        self._squares: dict[int, Sum] = {}  # the squares of roots and sines
        self.has_waves = False  # whether there are sines or cosines
        super().__init__(most_work=most_work)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.ABS:
            return (map_elements(self._magnitude, x[0]),)
        if fn is UnaryFn.SQRT:
            return (map_elements(self._root, x[0]),)
        if fn in (UnaryFn.COS, UnaryFn.SIN):
            self.has_waves = True
            return (map_elements(lambda v: self._wave(fn, v), x[0]),)
        return super().unary(fn, x, dtype)

    def _wave(self, fn: UnaryFn, a: Element) -> Element:
        """Apply a sine or cosine, by ``cos(-t) = cos(t)``, ``sin(-t) = -sin(t)`` and ``sin(t)^2 = 1
        - cos(t)^2``."""
        if not isinstance(a, Ratio) or not a.top:
            return self._apply(fn, a)
        opposite = a.top[self._leading(a.top)] < 0
        if opposite:
            a = Ratio(self._product(a.top, {UNIT: -1}), a.bottom)
        found = self._apply(fn, a)
        if fn is UnaryFn.COS or not isinstance(found, Ratio):
            return found
        cosine = self._apply(UnaryFn.COS, a)
        ((_, m),) = found.top
        ((symbol, _),) = self._monomials[m]
        assert isinstance(cosine, Ratio)
        square = super()._product(cosine.top, cosine.top)
        self._squares[symbol] = self._sum({UNIT: 1}, super()._product(square, {UNIT: -1}))
        return self.mul(found, Ratio({UNIT: -1})) if opposite else found

    # ---- relations of symbols --------------------------------------------------------------------

    def _monomial(self, powers: Powers) -> int:
        """Make a monomial in which squares of signs are 1."""
        signs = self._signs
        if any(s in signs and p != 1 for s, p in powers):
            powers = tuple(
                (s, 1 if s in signs else p) for s, p in powers if s not in signs or p % 2
            )
        return super()._monomial(powers)

    def _product(self, a: Sum, b: Sum) -> Sum:
        return self._without_squares(super()._product(a, b))

    def _without_squares(self, a: Sum) -> Sum:
        """Replace squares of roots by the roots' arguments, and those of sines by cosines."""
        if not self._squares:
            return a
        pending = dict(a)
        result: Sum = {}
        while pending:
            (exponent, monomial), c = pending.popitem()
            powers = self._monomials[monomial]
            root = next((item for item in powers if self._reduces(*item)), None)
            if root is None:
                result = self._sum(result, {(exponent, monomial): c})
                continue
            symbol, power = root
            inside, step = self._squares[symbol], 2 if power > 0 else -2
            if step < 0:
                ((term, number),) = inside.items()
                inside = self._inverse_term(term, number)
            left = {**dict(powers), symbol: power - step}
            rest = self._monomial(tuple(sorted(item for item in left.items() if item[1])))
            pending = self._sum(pending, super()._product({(exponent, rest): c}, inside))
        return result

    def _reduces(self, symbol: int, power: int) -> bool:
        """Return whether a power of a root or sine can be rewritten with a power closer to 0."""
        if symbol not in self._squares:
            return False
        return power >= 2 or (power < 0 and len(self._squares[symbol]) == 1)

    def same(self, a: Element, b: Element) -> bool:
        """Return whether two elements are equal, after clearing roots and sines from denominators
        (so that ``1/r == r/t`` if ``r r = t``)."""
        if super().same(a, b):
            return True
        if not isinstance(a, Ratio) or not isinstance(b, Ratio):
            return False
        bottoms = [x.bottom or {UNIT: 1} for x in (a, b)]
        tops = [self._product(a.top, bottoms[1]), self._product(b.top, bottoms[0])]
        negative: dict[int, int] = {}
        for top in tops:
            for _, m in top:
                for s, p in self._monomials[m]:
                    if s in self._squares and p < 0:
                        negative[s] = max(negative.get(s, 0), -p)
        for s, count in negative.items():
            once: Sum = {(0, self._monomial(((s, 1),))): 1}
            for _ in range(count):
                tops = [self._product(top, once) for top in tops]
        return bool(negative) and tops[0] == tops[1]

    # ---- known signs -----------------------------------------------------------------------------

    def _odd(self, powers: Powers) -> list[int]:
        """Return the symbols of a monomial ``t`` that decide its sign; ``t`` times its sign has
        none."""
        odd = {s for s, p in powers if p % 2 and not self._is_known(s)}
        for s in list(odd):
            if self._sign_of.get(s) in odd:
                odd -= {s, self._sign_of[s]}
        return sorted(odd)

    def _is_known(self, symbol: int) -> bool:
        """Return whether a symbol is known not to be negative."""
        return symbol in self._positives or symbol in self._roots or symbol in self._known

    def _not_negative(self, a: Sum) -> bool:
        return all(c > 0 and not self._odd(self._monomials[m]) for (_, m), c in a.items())

    def _sign(self, key: object) -> Sum:
        """Return the sign of the argument that ``key`` identifies. Raise :class:`AnotherSign`."""
        if self._given is not None:
            at = self._met.setdefault(key, len(self._met))
            if at >= len(self._given):
                raise AnotherSign("another sign")
            return {UNIT: self._given[at]}
        ratio = self._symbol(("sign", key))
        ((_, m),) = ratio.top
        ((symbol, _),) = self._monomials[m]
        self._signs.add(symbol)
        return ratio.top

    def _sign_of_symbol(self, symbol: int) -> Sum:
        if symbol in self._signs:
            return {(0, self._monomial(((symbol, 1),))): 1}
        sign = self._sign(symbol)
        if sign == {UNIT: 1}:
            self._known.add(symbol)
        elif sign != {UNIT: -1}:
            (((_, m), _),) = sign.items()
            ((self._sign_of[symbol], _),) = self._monomials[m]
        return sign

    # ---- magnitudes ------------------------------------------------------------------------------

    def _magnitude(self, a: Element) -> Element:
        if not isinstance(a, Ratio):
            return math.nan
        bottom = None if a.bottom is None else self._size(a.bottom)
        return self._make(self._size(a.top), bottom)

    def _size(self, a: Sum) -> Sum:
        """Return ``|a|``."""
        if not a or self._not_negative(a):
            return a
        factor, rest = self._without_factor(a)
        (((exponent, monomial), c),) = factor.items()
        size: Sum = {(exponent, monomial): abs(c)}
        for s in self._odd(self._monomials[monomial]):
            size = self._product(size, self._sign_of_symbol(s))
        if not self._not_negative(rest):
            size = self._product(size, self._sign(frozenset(rest.items())))
        return self._product(size, rest)

    # ---- square roots ----------------------------------------------------------------------------

    def _root(self, a: Element) -> Element:
        if not isinstance(a, Ratio):
            return math.nan
        if not a.top:
            return a
        if a.bottom is None:
            return Ratio(self._root_of(a.top))
        if self._not_negative(a.bottom) or self._not_negative(a.top):
            return self._make(self._root_of(a.top), self._root_of(a.bottom))
        # sqrt(n / d) = sqrt(n d) / |d|
        top = self._root_of(self._product(a.top, a.bottom))
        return self._make(top, self._size(a.bottom))

    def _root_of(self, a: Sum) -> Sum:
        factor, rest = self._without_factor(a)
        (((exponent, monomial), c),) = factor.items()
        result = self._root_of_number(Fraction(abs(c)))
        half = self._exponent({t: Fraction(x) / 2 for t, x in self._exponents[exponent].items()})
        result = self._product(result, {(half, 0): 1})
        left: list[tuple[int, int]] = []
        powers = self._monomials[monomial]
        undecided = set(self._odd(powers))
        for s, p in powers:
            if s in self._signs:
                if s in undecided:
                    left.append((s, 1))
                continue
            whole, odd = divmod(p, 2)
            result = self._product(result, {(0, self._monomial(((s, whole),) if whole else ())): 1})
            if whole % 2 and not self._is_known(s):
                result = self._product(result, self._sign_of_symbol(s))
            if odd and s in undecided:
                left.append((s, 1))
            elif odd:
                one: Sum = {(0, self._monomial(((s, 1),))): 1}
                if not self._is_known(s):
                    one = self._product(one, self._sign_of_symbol(s))
                result = self._product(result, self._root_symbol(one))
        inside: Sum = {(0, self._monomial(tuple(sorted(left)))): 1 if c > 0 else -1}
        square = self._root_of_square(rest)
        if square is not None:
            result = self._product(result, self._size(square))
            rest = dict[Term, Number]({UNIT: 1})
        if self._not_negative(rest):
            if rest != {UNIT: 1}:
                result = self._product(result, self._root_symbol(rest))
        else:
            inside = self._product(inside, rest)
        return result if inside == {UNIT: 1} else self._product(result, self._root_symbol(inside))

    def _root_symbol(self, a: Sum) -> Sum:
        ratio = self._symbol(("root", frozenset(a.items())))
        ((_, m),) = ratio.top
        ((symbol, _),) = self._monomials[m]
        self._roots[symbol] = self._squares[symbol] = a
        return ratio.top

    def _root_of_number(self, x: Fraction) -> Sum:
        """Return the square root of a number, prime by prime, so that roots of products are
        products of roots."""
        outside, inside = _square_part(x.numerator * x.denominator)
        result: Sum = {UNIT: _number(Fraction(outside, x.denominator))}
        for prime in inside:
            result = self._product(result, self._root_symbol({UNIT: prime}))
        return result

    # ---- logarithms ------------------------------------------------------------------------------

    def _log(self, x: Element) -> Element:
        """Return ``log|x|``."""
        if not isinstance(x, Ratio) or not x.top:
            return math.nan
        above, below = self._without_roots_below(x)
        if not above:
            return math.nan
        return self.add(self._log_of(above), self.negated(self._log_of(below)))

    def _log_of(self, a: Sum, conjugated: Collection[int] = ()) -> Element:
        """Return ``log|a|`` as a sum over the factors of ``a``: number, exponential, symbols, and
        the rest, or its root if it is a square, or its conjugate by roots other than
        ``conjugated``."""
        factor, rest = self._without_factor(a)
        (((exponent, monomial), c),) = factor.items()
        result: Element = Ratio(dict(self._exponents[exponent]))
        rest, raised = self._with_whole_roots(rest)
        if raised:
            number, rest = self._without_number(rest)
            c *= number
        size = Fraction(abs(c))
        for number, sign in ((size.numerator, 1), (size.denominator, -1)):
            for prime in _primes(number):
                result = self.add(result, self._log_times({UNIT: prime}, sign))
        for s, p in (*self._monomials[monomial], *((s, -p) for s, p in raised.items())):
            if s in self._roots:
                half = Ratio({UNIT: _number(Fraction(p, 2))})
                result = self.add(result, self.mul(self._log_of(self._roots[s]), half))
            elif s not in self._signs:
                result = self.add(result, self._log_times({(0, self._monomial(((s, 1),))): 1}, p))
        if rest == {UNIT: 1}:
            return result
        turned = self._by_conjugate(rest, conjugated)
        if turned is not None:
            symbol, norm, other = turned
            below = self.negated(self._log_of(other, (*conjugated, symbol)))
            return self.add(result, self.add(self._log_of(norm), below))
        root, count = self._root_of_square(rest), 1
        while root is not None:
            rest, count = root, 2 * count
            root = self._root_of_square(rest)
        return self.add(result, self._log_times(rest, count))

    def _without_number(self, a: Sum) -> tuple[Number, Sum]:
        """Return ``a`` divided by the number and the signs of its first term, and the number."""
        exponent_and_monomial = self._leading(a)
        number = Fraction(a[exponent_and_monomial])
        signs = (s for s, _ in self._monomials[exponent_and_monomial[1]] if s in self._signs)
        factor: Sum = {(0, self._monomial(tuple((s, 1) for s in signs))): _number(1 / number)}
        return _number(number), self._product(a, factor)

    def _log_times(self, a: Sum, count: int) -> Element:
        return self.mul(self._apply(UnaryFn.LOG, Ratio(a)), Ratio({UNIT: count}))


def _primes(n: int) -> list[int]:
    """Factor ``n`` into primes; the last factor may be composite if it has no prime factor below a
    limit."""
    found: list[int] = []
    prime = 2
    while prime <= _LARGEST_PRIME and prime * prime <= n:
        while n % prime == 0:
            n //= prime
            found.append(prime)
        prime += 1
    return [*found, n] if n > 1 else found


def _number(x: Fraction) -> Number:
    return x.numerator if x.denominator == 1 else x


def _square_part(n: int) -> tuple[int, list[int]]:
    """Write ``n`` as the square of a number times numbers whose roots are taken."""
    outside, inside = 1, list[int]()
    for factor in _primes(n):
        if factor in inside:
            inside.remove(factor)
            outside *= factor
        elif (root := math.isqrt(factor)) ** 2 == factor:
            outside *= root
        else:
            inside.append(factor)
    return outside, inside
