"""Whether several sums can have given signs at the same time.

A sum is a linear form in its terms (symbols, products of symbols, exponentials). The terms are
taken to be independent of each other, except that exponentials are positive. If the signs cannot
occur for independent terms, they cannot occur for real numbers either; the converse is not claimed.
A sum that is zero is solved for one of its terms; Fourier-Motzkin elimination decides about the
rest, one term at a time. After k terms, inequalities that are made of more than k + 1 of the given
ones follow from others (Kohler, 1967) and are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import count
from math import gcd, lcm

Term = tuple[int, int]
Form = Mapping[Term, Fraction]
_UNIT: Term = (0, 0)
_MOST = 400
"""The most inequalities that elimination may create; beyond it, the signs count as possible."""

_Whole = dict[Term, int]
"""A form times a positive number that makes its factors whole numbers without a common divisor."""

_Row = tuple[_Whole, bool, frozenset[int]]
"""A form, whether it is positive (True) or nonnegative (False), and the numbers of the given
inequalities that it is made of."""


def can_be(signed: Iterable[tuple[Form, int]]) -> bool:
    """Return False only if the forms cannot all have these signs (-1, 0, 1) at the same time."""
    zeros: list[_Whole] = []
    rows: list[_Row] = []
    for form, sign in signed:
        whole = _whole(form)
        if sign:
            above = whole if sign > 0 else {t: -c for t, c in whole.items()}
            rows.append((above, True, frozenset({len(rows)})))
        else:
            zeros.append(whole)
    while zeros:
        zero = zeros.pop()
        term = next((t for t in zero if t != _UNIT), None)
        if term is not None:
            zeros = [_solved(form, zero, term) for form in zeros]
            rows = [(_solved(form, zero, term), strict, of) for form, strict, of in rows]
        elif zero:  # a number that is not zero
            return False
    return _are_possible(rows)


def _whole(form: Form) -> _Whole:
    scale = lcm(*(c.denominator for c in form.values()))
    return _reduced({t: c.numerator * (scale // c.denominator) for t, c in form.items()})


def _reduced(form: _Whole) -> _Whole:
    common = gcd(*form.values())
    return {t: c // common for t, c in form.items() if c}


def _sum(one: _Whole, a: int, other: _Whole, b: int) -> _Whole:
    """Return ``a * one + b * other``, reduced."""
    found = {t: a * c for t, c in one.items()}
    for t, c in other.items():
        found[t] = found.get(t, 0) + b * c
    return _reduced(found)


def _solved(form: _Whole, zero: _Whole, term: Term) -> _Whole:
    """Return the form without the term, which is eliminated by the equation ``zero`` = 0."""
    if term not in form:
        return form
    factor = zero[term]
    return _sum(form, abs(factor), zero, -form[term] if factor > 0 else form[term])


def _are_possible(rows: list[_Row]) -> bool:
    for made_of in count(2):
        if any(not _is_possible(row) for row in rows):
            return False
        terms = {t for form, _, _ in rows for t in form if t != _UNIT}
        if not terms:
            return True
        pairs = _pairs(rows)
        rows = _without(min(terms, key=lambda t: pairs[t]), rows, made_of)
        if len(rows) > _MOST:
            break
    return True


def _pairs(rows: list[_Row]) -> Counter[Term]:
    """Return how many pairs of inequalities bound each term from either side."""
    above, below = Counter[Term](), Counter[Term]()
    for form, _, _ in rows:
        for term, factor in form.items():
            (above if factor > 0 else below)[term] += 1
    return Counter({t: n * below[t] for t, n in above.items()})


def _is_possible(row: _Row) -> bool:
    form, strict, _ = row
    if any(t != _UNIT for t in form):
        return True
    number = form.get(_UNIT, 0)
    return number > 0 if strict else number >= 0


def _without(term: Term, rows: list[_Row], most: int) -> list[_Row]:
    """Eliminate one term, which may be any number, from the inequalities, and leave out those that
    are made of more than ``most`` given ones."""
    above = [row for row in rows if row[0].get(term, 0) > 0]
    below = [row for row in rows if row[0].get(term, 0) < 0]
    found = [row for row in rows if term not in row[0]]
    for one, first, some in above:
        for other, second, others in below:
            if len(both := some | others) <= most:
                found.append((_sum(one, -other[term], other, one[term]), first or second, both))
    return found
