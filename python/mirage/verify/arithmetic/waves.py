"""Sines and cosines as exponentials: ``cos(t) = (e^(it) + e^(-it)) / 2`` and ``sin(t) = (e^(it) -
e^(-it)) / 2i``, where ``i`` is a symbol whose square is -1.

Products of exponentials are exponentials of sums, so this knows the theorems about sums of angles
and about multiples of an angle, and that squares of sine and cosine add up to 1. A sum in which
``i`` occurs is not known to be a real number, and an exponential of ``i t`` is not positive. So
nothing is moved out of its magnitude, root or logarithm except a rational number, and where it is
part of a quotient, these are uninterpreted functions of the whole quotient.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import DType, UnaryFn
from mirage.verify.arithmetic.logarithms import Number, Sum, Term
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.real_identities import UNIT, RealNumbers

_HALF: Number = Fraction(1, 2)


class Waves(RealNumbers):
    """The domain described in the module's docstring."""

    def __init__(self, *, most_work: int, signs: Sequence[int] | None = None) -> None:
        super().__init__(most_work=most_work, signs=signs)
        self._i: Sum = self._variable("imaginary unit")
        ((_, m),) = self._i
        ((self._unit, _),) = self._monomials[m]
        self._squares[self._unit] = {UNIT: -1}
        self._terms: dict[Term, bool] = {}

    def _wave(self, fn: UnaryFn, a: Element) -> Element:
        if not isinstance(a, Ratio) or a.bottom is not None or any(e for e, _ in a.top):
            return super()._wave(fn, a)
        turned = self._product(a.top, self._i)
        back = self._product(turned, {UNIT: -1})
        forth: Sum = {(self._exponent(turned), 0): _HALF}
        back = {(self._exponent(back), 0): _HALF}
        if fn is UnaryFn.COS:
            return Ratio(self._sum(forth, back))
        difference = self._sum(forth, self._product(back, {UNIT: -1}))
        return Ratio(self._product(self._product(difference, self._i), {UNIT: -1}))

    # ---- elements that may not be real numbers

    def _imaginary(self, a: Sum | None) -> bool:
        return a is not None and any(map(self._with_unit, a))

    def _with_unit(self, term: Term) -> bool:
        if term not in self._terms:
            exponent, monomial = term
            inside = (m for _, m in self._exponents[exponent])
            monomials = (monomial, *inside)
            self._terms[term] = any(
                s == self._unit for m in monomials for s, _ in self._monomials[m]
            )
        return self._terms[term]

    def _not_negative(self, a: Sum) -> bool:
        return not self._imaginary(a) and super()._not_negative(a)

    def _without_factor(self, a: Sum) -> tuple[Sum, Sum]:
        if not self._imaginary(a):
            return super()._without_factor(a)
        c = a[self._leading(a)]
        inverse: Sum = {UNIT: Fraction(1) / c}
        return {UNIT: c}, self._product(a, inverse)

    def _root_of_square(self, a: Sum) -> Sum | None:
        return None if self._imaginary(a) else super()._root_of_square(a)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        own = fn in (UnaryFn.ABS, UnaryFn.SQRT, UnaryFn.LOG)
        if own and any(map(self._is_opaque, x[0].ravel())):
            return self._each(fn, x, dtype)
        return super().unary(fn, x, dtype)

    def _each(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        """Apply a function element by element: to quotients with ``i`` as an unknown function."""
        found = x[0].copy()
        for at, element in enumerate(x[0].ravel()):
            if self._is_opaque(element):
                found.flat[at] = self._apply(fn, element)
            else:
                one = x[0].ravel()[at : at + 1]
                (found.flat[at],) = super().unary(fn, (one,), dtype)[0]
        return (found,)

    def _is_opaque(self, a: Element) -> bool:
        if not isinstance(a, Ratio) or a.bottom is None:
            return False
        return self._imaginary(a.top) or self._imaginary(a.bottom)
