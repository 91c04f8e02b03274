"""Symbolic arithmetic with square roots and powers whose arguments have known signs.

Even powers come out of a root as magnitudes: ``sqrt(a^2 t) = |a| sqrt(t)``. For negative powers
this clears the divisors of a sum under a root. The root of zero, and any positive power of zero, is
zero.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.verify.arithmetic.interned_sums import ONE
from mirage.verify.arithmetic.known_functions import element_of, number_of
from mirage.verify.arithmetic.known_numbers import KnownNumbers
from mirage.verify.arithmetic.logarithms import Sum
from mirage.verify.arithmetic.object_arrays import as_array, map_elements
from mirage.verify.arithmetic.ratios import Element, Ratio


class RootsBySigns(KnownNumbers):
    """The domain described in the module's docstring."""

    @abstractmethod
    def _sign_of_symbol(self, symbol: int) -> int:
        """Return the sign of a symbol. May raise :class:`NoProof`."""

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.SQRT:
            return (map_elements(self._root, x[0]),)
        return super().unary(fn, x, dtype)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is not BinaryFn.POW:
            return super().binary(fn, a, b, dtype)

        def power(x: Element, y: Element) -> Element:
            exponent = number_of(y)
            if number_of(x) == 0 and exponent is not None and exponent > 0:
                return element_of(0)
            return self._apply(fn, x, y)

        return (as_array(np.frompyfunc(power, 2, 1)(a[0], b[0])),)

    def _root(self, a: Element) -> Element:
        if not isinstance(a, Ratio):
            return math.nan
        if not a.top or a.bottom is not None:
            return a if not a.top else self._apply(UnaryFn.SQRT, a)
        outside, inside = self._squares_out(a.top)
        number = number_of(Ratio(inside))
        if number is not None and (exact := exact_root(number)) is not None:
            return self.mul(outside, element_of(exact))
        return self.mul(outside, self._apply(UnaryFn.SQRT, Ratio(inside)))

    def _squares_out(self, a: Sum) -> tuple[Element, Sum]:
        """Return ``(m, r)`` with ``a = m^2 r``, where ``m`` is not negative and no symbol has a
        negative power in ``r``, nor one of 2 or more in all of its terms."""
        powers = [dict(self._monomials[monomial]) for _, monomial in a]
        outside, rest = element_of(1), Ratio(a)
        for symbol in sorted({s for each in powers for s in each}):
            half = min(each.get(symbol, 0) for each in powers) // 2
            if not half:
                continue
            sign = self._sign_of_symbol(symbol) if half % 2 else 1
            outside = self.mul(outside, self._power_of_symbol(symbol, half, sign))
            rest = self.mul(rest, self._power_of_symbol(symbol, -2 * half, 1))
        assert isinstance(rest, Ratio)
        return outside, rest.top

    def _power_of_symbol(self, symbol: int, power: int, factor: int) -> Ratio:
        return Ratio({(ONE[0], self._monomial(((symbol, power),))): factor})


def exact_root(x: Fraction) -> Fraction | None:
    """Return the square root of a number if it is rational."""
    if x < 0:
        return None
    root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
    return root if root * root == x else None
