"""Symbolic arithmetic with symbols that are whole numbers, and with truth values.

Quotients and remainders of whole numbers by a positive number are brought to one form
(:mod:`mirage.verify.arithmetic.whole_numbers`); comparisons of sums of truth values are truth
values again, and a choice by one of them is a sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BinaryFn
from mirage.verify.arithmetic.interned_sums import ONE
from mirage.verify.arithmetic.known_functions import BINARY, element_of, number_of, truth
from mirage.verify.arithmetic.logarithms import Powers
from mirage.verify.arithmetic.ratios import Element, Ratio
from mirage.verify.arithmetic.symbolic import Symbolic
from mirage.verify.arithmetic.whole_numbers import quotient


class TruthValues(Symbolic):
    """Elements that are known to be whole numbers or truth values (0 or 1). With ``products``,
    conjunctions and disjunctions are polynomials of truth values, which are their own squares, so
    that masks within masks are understood; otherwise they are joins, which may have many parts."""

    products = False

    def __init__(self, *, most_work: int, reciprocals_as_symbols: bool = False) -> None:
        super().__init__(most_work=most_work, reciprocals_as_symbols=reciprocals_as_symbols)
        self._whole: set[int] = set()  # symbols
        self._bits: set[int] = set()  # symbols that are 0 or 1
        self._kept: dict[object, tuple[object, Element]] = {}  # by the key of the result
        self._truths: set[object] = set()  # keys of elements that are 0 or 1
        self._masks: dict[object, object] = {}  # the mask of each bias
        self._quotients: dict[int, tuple[Ratio, int]] = {}  # the quotient that a symbol is
        self._odd: dict[object, Element] = {}  # remainders of halving, by the quotients

    def truth_values(self, name: int, shape: tuple[int, ...]) -> Planes:
        """Make a tensor of symbols that are 0 or 1."""
        found = self.whole_numbers(name, shape)
        self._truths.update(self._key(v) for v in found[0].ravel())
        self._bits.update(self._symbols[name, i] for i in range(math.prod(shape)))
        return found

    def _monomial(self, powers: Powers) -> int:
        """Make a monomial in which truth values are their own squares."""
        if any(p > 1 and s in self._bits for s, p in powers):
            powers = tuple((s, 1 if p > 1 and s in self._bits else p) for s, p in powers)
        return super()._monomial(powers)

    def whole_numbers(self, name: int, shape: tuple[int, ...]) -> Planes:
        """Make a tensor of symbols that are whole numbers."""
        found = self.inputs(name, shape)
        self._whole.update(self._symbols[name, i] for i in range(math.prod(shape)))
        return found

    # ---- whole numbers

    def _divided(self, fn: BinaryFn, x: Element, by: Fraction) -> Element | None:
        """Return the quotient or remainder of a whole number and a positive number, or None."""
        if by <= 0 or by != int(by) or not isinstance(x, Ratio) or not self._is_whole(x):
            return None
        found = self._quotient({t: int(c) for t, c in x.top.items()}, int(by))
        if fn is BinaryFn.FLOOR_DIV:
            return found
        rest = self.add(x, self.mul(found, element_of(-int(by))))
        if by == 2:
            self._truths.add(self._key(rest))
            self._odd[self._key(found)] = rest
        return rest

    def _quotient(self, a: Mapping[tuple[int, int], int], n: int) -> Element:
        found = quotient(a, n)
        whole: Element = Ratio(dict(found.whole))
        if not found.rest:
            return whole
        inside = self._inside(found.rest)
        if inside is not None:  # a quotient of a quotient
            (dividend, by), constant = inside
            summed = self.add(dividend, element_of(constant * by))
            assert isinstance(summed, Ratio)
            rest = self._quotient({t: int(c) for t, c in summed.top.items()}, by * found.by)
        else:
            element = Ratio(dict(found.rest))
            rest = self._symbol(("quotient", self._key(element), found.by))
            symbol = self._alone(rest)
            self._whole.add(symbol)
            self._quotients[symbol] = element, found.by
        return self.add(whole, self.mul(rest, element_of(found.sign)))

    def _inside(self, rest: Mapping[tuple[int, int], int]) -> tuple[tuple[Ratio, int], int] | None:
        """Split a sum into a known quotient and a constant; None if it is not of this form."""
        terms = [t for t in rest if t != ONE]
        if len(terms) != 1 or rest[terms[0]] != 1 or terms[0][0]:
            return None
        powers = self._monomials[terms[0][1]]
        if len(powers) != 1 or powers[0][1] != 1 or powers[0][0] not in self._quotients:
            return None
        return self._quotients[powers[0][0]], rest.get(ONE, 0)

    def _alone(self, x: Ratio) -> int:
        """Return the symbol that the element consists of."""
        ((_, monomial),) = x.top
        ((symbol, _),) = self._monomials[monomial]
        return symbol

    def _is_whole(self, x: Element) -> bool:
        """Return whether an element is a sum of products of whole numbers."""
        return (
            isinstance(x, Ratio)
            and x.bottom is None
            and all(
                c == int(c)
                and not e
                and all(s in self._whole and n > 0 for s, n in self._monomials[m])
                for (e, m), c in x.top.items()
            )
        )

    # ---- truth values

    def _below_zero(self, x: Element) -> Element | None:
        """Return the truth value of ``x < 0`` if ``x`` is linear in one truth value or is minus a
        count of several; else None."""
        if not isinstance(x, Ratio) or x.bottom is not None or number_of(x) is not None:
            return None
        if (line := self._line(x)) is not None:
            decides, number, factor = line
            no, yes = truth(number < 0), truth(number + factor < 0)
            return self.add(element_of(no), self.mul(decides, element_of(yes - no)))
        return self._any(x, -1)

    def _any(self, x: Ratio, sign: int) -> Element | None:
        """Return the truth value of "one of several truth values is true", where ``x`` is ``sign``
        times a weighted count of them; else None. A number in the count always counts."""
        if any(c * sign <= 0 for c in x.top.values()):
            return None
        each = [Ratio({t: 1}) for t in x.top if t != ONE]
        if not all(self._key(t) in self._truths for t in each):
            return None
        if ONE in x.top:
            return element_of(1)
        found = self._join(BinaryFn.MAX, list(each))
        self._truths.add(self._key(found))
        return found

    def _is_truth(self, x: Element) -> bool:
        return self._key(x) in self._truths or number_of(x) in (0, 1)

    def note_truth(self, x: Element) -> None:
        """Note that an element is 0 or 1."""
        self._truths.add(self._key(x))
        if isinstance(x, Ratio) and x.bottom is None and len(x.top) == 1:
            (((exponent, monomial), factor),) = x.top.items()
            powers = self._monomials[monomial]
            if not exponent and factor == 1 and len(powers) == 1 and powers[0][1] == 1:
                self._bits.add(powers[0][0])

    def _combined(self, fn: BinaryFn, x: Element, y: Element) -> Element | None:
        """Return the smaller or larger of two truth values, or of their opposites, as a polynomial;
        else None."""
        if not self.products:
            return None
        minus = element_of(-1)
        opposite = self.mul(x, minus), self.mul(y, minus)
        if all(map(self._is_truth, opposite)) and not (self._is_truth(x) and self._is_truth(y)):
            other = BinaryFn.MIN if fn is BinaryFn.MAX else BinaryFn.MAX
            found = self._combined(other, *opposite)
            return None if found is None else self.mul(found, minus)
        if not (self._is_truth(x) and self._is_truth(y)):
            return None
        both = self.mul(x, y)
        if fn is BinaryFn.MAX:
            both = self.add(self.add(x, y), self.mul(both, element_of(-1)))
        self._truths.add(self._key(both))
        return both

    def _not(self, x: Element) -> Element:
        found = self.add(element_of(1), self.mul(x, element_of(-1)))
        self._truths.add(self._key(found))
        return found

    def _line(self, x: Element) -> tuple[Ratio, Fraction, Fraction] | None:
        """Return ``(t, a, b)`` with ``x == a + b t`` and a truth value ``t``, or None."""
        if not isinstance(x, Ratio) or x.bottom is not None:
            return None
        for known in self._truths_in(x):
            ((term, c),) = list(known.top.items())[-1:]
            factor = Fraction(x.top.get(term, 0)) / Fraction(c)
            number = number_of(self.add(x, self.mul(known, element_of(-factor))))
            if number is not None:
                return known, number, factor
        return None

    def _one_of(self, fn: BinaryFn, x: Element, y: Element) -> Element | None:
        """Return the larger (or smaller) of two elements whose difference depends on one truth
        value."""
        if not isinstance(x, Ratio) or not isinstance(y, Ratio):
            return None
        difference = self.add(x, self.mul(y, element_of(-1)))
        if (line := self._line(difference)) is None:
            return None
        decides, number, factor = line
        best = BINARY[fn]
        no = best(number, Fraction(0))
        yes = best(number + factor, Fraction(0))
        rest = self.mul(decides, element_of(Fraction(yes) - Fraction(no)))
        return self.add(y, self.add(element_of(no), rest))

    def _truths_in(self, x: Ratio) -> list[Ratio]:
        """Return the truth values that may occur in a sum."""
        found: list[Ratio] = []
        for t in x.top:
            element = Ratio({t: 1})
            key = self._key(element)
            if key in self._truths:
                found.append(element)
            elif key in self._odd and isinstance(odd := self._odd[key], Ratio):
                found.append(odd)
        return found

    def _equal(self, x: Element, y: Element) -> Element:
        """Return the truth value of ``x == y``, which is the same for ``y == x``."""
        there, back = (self.add(a, self.mul(b, element_of(-1))) for a, b in ((x, y), (y, x)))
        number = number_of(there)
        if number is not None:
            return element_of(truth(number == 0))
        for sign in (1, -1):
            some = self._any(there, sign) if isinstance(there, Ratio) and not there.bottom else None
            if some is not None:
                return self._not(some)
        keys = self._key(there), self._key(back)
        if None in keys:
            return math.nan
        found = self._symbol((BinaryFn.EQ, frozenset(keys)))
        self._truths.add(self._key(found))
        return found

    # ---- masked values

    def _keep(self, condition: Element, x: Element) -> Element:
        """Return ``x`` where the condition is not zero, and zero elsewhere."""
        number = number_of(condition)
        if number is not None:
            return x if number else Ratio({})
        if number_of(x) == 0:
            return Ratio({})
        plain = self._key(condition) in self._truths and self._is_plain(x)
        found = self.mul(condition, x) if plain else self._apply(BinaryFn.KEEP, condition, x)
        self._kept[self._key(found)] = self._key(condition), x
        return found

    def _is_plain(self, x: Element) -> bool:
        """Return whether an element is a polynomial of inputs, and so a number for any inputs."""
        if not isinstance(x, Ratio) or x.bottom is not None:
            return False
        powers = (power for _, m in x.top for power in self._monomials[m])
        return not any(e for e, _ in x.top) and all(
            n > 0 and s not in self._functions for s, n in powers
        )

    def _seen(self, x: Element, y: Element) -> Element:
        """Return ``x + y``. If ``y`` is minus infinity wherever the mask in ``x`` removes
        something, the mask is dropped."""
        for one, other in ((x, y), (y, x)):
            if isinstance(one, Ratio) and isinstance(other, Ratio):
                kept = self._kept.get(self._key(one))
                mask = self._masks.get(self._key(other))
                if kept is not None and mask is not None and kept[0] == mask:
                    return self.add(kept[1], other)
        return self.add(x, y)
