"""Exact symbolic arithmetic for small programs: equality without chance.

A value is a quotient of sums of terms ``c * monomial * e^(polynomial)`` with rational ``c``.
Monomials are Laurent monomials (negative powers allowed) in the inputs and in values of
uninterpreted functions. Sums are kept in normal form (like terms collected, exponents and monomials
interned), so that two sums are equal exactly if they look equal; two quotients are compared by
cross-multiplication.

Uninterpreted functions and maxima are treated as in :mod:`mirage.verify.arithmetic.formal`: one
symbol for each argument (each set of arguments). Here arguments count as equal only if their normal
forms look alike, so a proof may be missed, never invented. Of a logarithm more is known: factors
``e^c`` of its argument are taken out (:mod:`mirage.verify.arithmetic.logarithms`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mirage.semantics import numbers
from mirage.semantics.domain import Domain, Planes, map_planes
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.logarithms import Number, Powers, Sum, Term, common_part
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects

_MAX_TERMS = 60_000
MOST_WORK = 40 * _MAX_TERMS  # products of terms
LITTLE_WORK = 200_000  # of attempts that others can follow
_SHORT = 8  # terms of sums that are written out in any product
_COPIED = 8  # terms that are copied in the time of a product
_ONE: Term = (0, 0)


class NoProof(ArithmeticError):
    """The symbolic calculation cannot go on: too large, or outside its language."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """``top / bottom`` in normal form; a missing bottom is 1."""

    top: Sum
    bottom: Sum | None = None


Element = Ratio | float
"""A quotient, or a float: NaN for "undefined", minus infinity."""


class Symbolic(Domain):
    """The domain described in the module's docstring; one plane of elements.

    ``reciprocals_as_symbols`` writes ``1 / a`` as a symbol (with factors that are single terms
    taken out of ``a``) instead of clearing denominators: less is equal then, but sums stay short
    where many different denominators meet. ``fold`` writes two long sums that are multiplied as
    symbols: the same ones for sums that are equal up to a factor. Above ``most_work`` products of
    terms it gives up.
    """

    def __init__(
        self,
        *,
        reciprocals_as_symbols: bool = False,
        fold: bool = False,
        most_work: int = MOST_WORK,
    ) -> None:
        self._most_work = most_work
        self._fold = fold
        self._reciprocals_as_symbols = reciprocals_as_symbols
        self._symbols: dict[object, int] = {}
        self._functions: set[int] = set()  # symbols that are values of functions
        self._positives: set[int] = set()  # symbols that are positive numbers
        self._monomials: list[Powers] = [()]
        self._monomial_ids: dict[Powers, int] = {(): 0}
        self._products: dict[tuple[int, int], int] = {}
        self._exponents: list[Sum] = [{}]
        self._exponent_ids: dict[frozenset[tuple[Term, Number]], int] = {frozenset(): 0}
        self._exponent_sums: dict[tuple[int, int], int] = {}
        self._arguments: dict[object, int] = {}
        self._sets: dict[object, frozenset[object]] = {}
        self._add = np.frompyfunc(self.add, 2, 1)
        self._mul = np.frompyfunc(self.mul, 2, 1)
        self.work = 0  # products of terms so far
        self.folded = False  # whether sums were written as symbols

    # ---- interned monomials and exponents --------------------------------------------------------

    def variable(self, name: object) -> Ratio:
        """A symbol."""
        symbol = self._symbols.setdefault(name, len(self._symbols))
        return Ratio({(0, self._monomial(((symbol, 1),))): 1})

    def _monomial(self, powers: Powers) -> int:
        found = self._monomial_ids.setdefault(powers, len(self._monomials))
        if found == len(self._monomials):
            self._monomials.append(powers)
        return found

    def _times(self, a: int, b: int) -> int:
        """Product of two monomials."""
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

    # ---- sums ------------------------------------------------------------------------------------

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
        if len(a) == 1 and _ONE in a:
            factor = a[_ONE]
            return b if factor == 1 else {t: c * factor for t, c in b.items()}
        result: Sum = {}
        for (e1, m1), c1 in a.items():
            for (e2, m2), c2 in b.items():
                term = (self._join_exponents(e1, e2), self._times(m1, m2))
                known = result.get(term)
                result[term] = c1 * c2 if known is None else known + c1 * c2
        return {t: c for t, c in result.items() if c}

    def _folded(self, a: Sum) -> Sum:
        """``a`` as a single term: its factor, and a symbol for the rest."""
        self.folded = True
        self._worked(len(a))
        factor, rest = self._without_factor(a)
        return self._product(factor, self._symbol(("sum", frozenset(rest.items()))).top)

    def _square(self, a: Sum) -> Sum:
        """``a * a``: each pair of terms once."""
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

    # ---- elements --------------------------------------------------------------------------------

    def _make(self, top: Sum, bottom: Sum | None) -> Ratio:
        if bottom is not None and len(bottom) == 1:
            ((term, c),) = bottom.items()
            return Ratio(self._product(top, self._inverse_term(term, c)))
        return Ratio(top, bottom if top else None)

    def add(self, a: Element, b: Element) -> Element:
        """Sum of two elements."""
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
        """Product of two elements."""
        if not isinstance(a, Ratio) or not isinstance(b, Ratio):
            return math.nan
        if a.bottom is not None and a.bottom == b.top:
            return self._make(a.top, b.bottom)
        if b.bottom is not None and b.bottom == a.top:
            return self._make(b.top, a.bottom)
        return self._make(self._product(a.top, b.top), self._bottoms(a, b))

    def invert(self, a: Element) -> Element:
        """Reciprocal; NaN for zero."""
        if not isinstance(a, Ratio) or not a.top:
            return math.nan
        if self._reciprocals_as_symbols and len(a.top) > 1:
            factor, rest = self._without_factor(a.top)
            symbol = self._symbol((UnaryFn.RECIPROCAL, frozenset(rest.items())))
            ((term, c),) = factor.items()
            return self._make(self._product(symbol.top, self._inverse_term(term, c)), None)
        return self._make(a.bottom or {_ONE: 1}, a.top)

    def _without_factor(self, a: Sum) -> tuple[Sum, Sum]:
        """``(f, r)`` with ``a == f r`` and a single term ``f``, the same ``r`` for all multiples of
        ``a`` by single terms.
        """
        term = self._leading(a)
        return {term: a[term]}, self._product(a, self._inverse_term(term, a[term]))

    def _leading(self, a: Sum) -> Term:
        """The largest term in an order that products with single terms keep: that of the
        coefficients in the exponent, then of the powers (lexicographically).
        """
        exponents = [(t, self._exponents[t[0]]) for t in a]
        leading = _largest(exponents)
        (term,) = _largest([(t, dict(self._monomials[t[1]])) for t in leading])
        return term

    def _bottoms(self, a: Ratio, b: Ratio) -> Sum | None:
        if a.bottom is None or b.bottom is None:
            return a.bottom or b.bottom
        return self._product(a.bottom, b.bottom)

    def _factor(self, a: Sum, b: Sum) -> Sum | None:
        """A single term ``f`` with ``a == f b``, if there is one."""
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

    def same(self, a: Element, b: Element) -> bool:
        """Whether two elements are equal (never for undefined ones)."""
        if not isinstance(a, Ratio) or not isinstance(b, Ratio):
            return not isinstance(a, Ratio) and not isinstance(b, Ratio) and a == b
        d1, d2 = a.bottom or {_ONE: 1}, b.bottom or {_ONE: 1}
        if d1 == d2:
            return a.top == b.top
        factor = self._factor(d2, d1)
        if factor is not None:
            return self._product(a.top, factor) == b.top
        return self._product(a.top, d2) == self._product(b.top, d1)

    def _key(self, a: Element) -> object:
        """Equal for elements that look alike in normal form; None for undefined ones."""
        if not isinstance(a, Ratio):
            return None
        if a.bottom is None:
            return frozenset(a.top.items())
        term, c = min(a.bottom.items())
        scale = self._inverse_term(term, c)
        return frozenset(self._product(a.top, scale).items()), frozenset(
            self._product(a.bottom, scale).items()
        )

    def _symbol(self, key: object) -> Ratio:
        name = ("f", self._arguments.setdefault(key, len(self._arguments)))
        value = self.variable(name)
        self._functions.add(self._symbols[name])
        return value

    def _apply(self, fn: object, *arguments: Element) -> Element:
        keys = tuple(map(self._key, arguments))
        return math.nan if None in keys else self._symbol((fn, keys))

    def _apply_in_any_order(self, fn: object, *arguments: Element) -> Element:
        """:meth:`_apply` of a function that commutes."""
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
        if not isinstance(x, Ratio):
            return Ratio({}) if x == -math.inf else math.nan
        if x.bottom is not None or any(e for e, _ in x.top):
            return self._apply(UnaryFn.EXP, x)
        return Ratio({(self._exponent(x.top), 0): 1})

    def _log(self, x: Element) -> Element:
        """``log(e^c n / (e^d m)) = c - d + log(n / m)``, and that is ``log(n) - log(m)`` if one of
        the two is certainly positive.
        """
        if not isinstance(x, Ratio) or not x.top:
            return math.nan
        power, top = self._without_power(x.top)
        bottom = x.bottom
        if bottom is not None:
            below, bottom = self._without_power(bottom)
            power = self.add(power, _negated(self, below))
        rest = self._make(top, bottom)
        if rest.bottom is None or not (self._positive(rest.top) or self._positive(rest.bottom)):
            return self.add(power, self._log_symbol(rest))
        above, below = (self._log_symbol(Ratio(a)) for a in (rest.top, rest.bottom))
        return self.add(power, self.add(above, _negated(self, below)))

    def _log_symbol(self, a: Ratio) -> Element:
        if a.bottom is None and a.top == {_ONE: 1}:
            return Ratio({})
        return self._apply(UnaryFn.LOG, a)

    def _positive(self, a: Sum) -> bool:
        """Whether ``a`` is a sum of positive numbers times exponentials."""
        return all(
            c > 0 and all(s in self._positives for s, _ in self._monomials[m])
            for (_, m), c in a.items()
        )

    def _without_power(self, a: Sum) -> tuple[Ratio, Sum]:
        """``(c, r)`` with ``a == e^c r``."""
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

    # ---- the domain ------------------------------------------------------------------------------

    def inputs(self, name: int, shape: tuple[int, ...]) -> Planes:
        """A tensor of symbols."""
        return (objects([self.variable((name, i)) for i in range(math.prod(shape))], shape),)

    def integers(self, values: tuple[int, ...]) -> Planes:
        """A vector of integers."""
        return (objects([Ratio({_ONE: v} if v else {}) for v in values], (len(values),)),)

    def constant(self, value: numbers.Number, dtype: DType) -> Planes:
        value = numbers.as_number(value)
        if not isinstance(value, Fraction):
            return (objects([value if value < 0 else math.nan], ()),)
        if (symbol := self.read(value)) is not None:
            return (objects([symbol], ()),)
        c: Number = value.numerator if value.denominator == 1 else value
        return (objects([Ratio({_ONE: c} if c else {})], ()),)

    def read(self, number: Fraction) -> Ratio | None:
        """What a constant stands for if not for its value."""
        return None

    def select(self, keep: Array, x: Planes, fill: float, dtype: DType) -> Planes:
        value = self.constant(fill, dtype)[0][()]
        mask = np.broadcast_to(keep, np.broadcast_shapes(keep.shape, x[0].shape))
        source = np.broadcast_to(x[0], mask.shape)
        return (
            objects(
                [v if k else value for k, v in zip(mask.ravel(), source.ravel(), strict=True)],
                mask.shape,
            ),
        )

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.NEG:
            return self.binary(BinaryFn.MUL, x, self.constant(-1.0, dtype), dtype)
        if fn is UnaryFn.SQUARE:
            return self.binary(BinaryFn.MUL, x, x, dtype)
        own = {UnaryFn.RECIPROCAL: self.invert, UnaryFn.EXP: self._exp, UnaryFn.LOG: self._log}
        if fn in own:
            return (map_elements(own[fn], x[0]),)
        return (map_elements(lambda v: self._apply(fn, v), x[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.ADD:
            return (as_array(self._add(a[0], b[0])),)
        if fn is BinaryFn.MUL:
            return (as_array(self._mul(a[0], b[0])),)
        if fn is BinaryFn.SUB:
            minus = Ratio({_ONE: -1})
            negative = map_elements(
                lambda v: -v if isinstance(v, float) else self.mul(v, minus), b[0]
            )
            return (as_array(self._add(a[0], negative)),)
        if fn is BinaryFn.DIV:
            return (as_array(self._mul(a[0], map_elements(self.invert, b[0]))),)
        if fn in (BinaryFn.MAX, BinaryFn.MIN):
            return (as_array(np.frompyfunc(lambda x, y: self._join(fn, [x, y]), 2, 1)(a[0], b[0])),)
        apply = self._apply_in_any_order if BINARY[fn].commutes else self._apply
        return (as_array(np.frompyfunc(lambda x, y: apply(fn, x, y), 2, 1)(a[0], b[0])),)

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes:
        return (map_elements(lambda v: self._apply((given, dtype), v), x[0]),)

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        products = as_array(self._mul(a[0][..., :, :, None], b[0][..., None, :, :]))
        return (as_array(self._add.reduce(products, axis=-2)),)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is ReduceFn.SUM:
            for d in dims:
                x = (as_array(self._add.reduce(x[0], axis=d, keepdims=True)),)
            return x
        kept = tuple(d for d in range(x[0].ndim) if d not in dims)
        shape = tuple(1 if d in dims else n for d, n in enumerate(x[0].shape))
        across = math.prod(x[0].shape[d] for d in dims)
        flat = (math.prod(shape), across)
        (rows,) = map_planes(lambda v: v.transpose((*kept, *dims)).reshape(flat), x)
        return (objects([self._join(BinaryFn.MAX, list(row)) for row in rows], shape),)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        def factor(b: Element, n: Element) -> Element:
            return (
                Ratio({_ONE: 1}) if self.same(b, n) else self._exp(self.add(b, _negated(self, n)))
            )

        with np.errstate(invalid="ignore"):  # minus infinity less minus infinity
            factors = as_array(np.frompyfunc(factor, 2, 1)(before[0], now[0]))
        return (as_array(self._mul(x[0], factors)),)

    def equal(self, a: Planes, b: Planes) -> Array:
        return np.asarray(np.frompyfunc(self.same, 2, 1)(a[0], b[0])).astype(bool)


def _negated(domain: Symbolic, x: Element) -> Element:
    return -x if not isinstance(x, Ratio) else domain.mul(x, Ratio({_ONE: -1}))


def _largest(vectors: Sequence[tuple[Term, Mapping[Any, Number]]]) -> list[Term]:
    """Those with the lexicographically largest vector; what is missing is zero."""
    left = list(vectors)
    for place in sorted({place for _, vector in left for place in vector}):
        if len(left) == 1:
            break
        most = max(vector.get(place, 0) for _, vector in left)
        left = [item for item in left if item[1].get(place, 0) == most]
    return [term for term, _ in left]
