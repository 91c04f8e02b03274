"""Whether several sums can have given signs at the same time.

A sum is a linear form in its terms (symbols, products of symbols, exponentials). The terms are
taken to be independent of each other, except that exponentials are positive. If the signs cannot
occur for independent terms, they cannot occur for real numbers either; the converse is not claimed.
Fourier-Motzkin elimination decides, one term at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

Term = tuple[int, int]
Form = Mapping[Term, Fraction]
_UNIT: Term = (0, 0)
_MOST = 400
"""The most inequalities that elimination may create; beyond it, the signs count as possible."""

_Row = tuple[dict[Term, Fraction], bool]
"""A linear form and whether it is positive (True) or nonnegative (False)."""


def can_be(signed: Iterable[tuple[Form, int]]) -> bool:
    """Return False only if the forms cannot all have these signs (-1, 0, 1) at the same time."""
    rows: list[_Row] = []
    for form, sign in signed:
        up = {t: Fraction(c) for t, c in form.items() if c}
        down = {t: -c for t, c in up.items()}
        rows += [(up, False), (down, False)] if sign == 0 else [(up if sign > 0 else down, True)]
    while True:
        if any(not _is_possible(row) for row in rows):
            return False
        terms = {t for form, _ in rows for t in form if t != _UNIT}
        if not terms:
            return True
        pairs = _pairs(rows)
        rows = _without(min(terms, key=lambda t: pairs[t]), rows)
        if len(rows) > _MOST:
            return True


def _pairs(rows: list[_Row]) -> Counter[Term]:
    """Return how many pairs of inequalities bound each term from either side."""
    above, below = Counter[Term](), Counter[Term]()
    for form, _ in rows:
        for term, factor in form.items():
            (above if factor.numerator > 0 else below)[term] += 1
    return Counter({t: n * below[t] for t, n in above.items()})


def _is_possible(row: _Row) -> bool:
    form, strict = row
    if any(t != _UNIT for t in form):
        return True
    number = form.get(_UNIT, Fraction(0))
    return number > 0 if strict else number >= 0


def _without(term: Term, rows: list[_Row]) -> list[_Row]:
    """Eliminate one term, which may be any number, from the inequalities."""
    above = [row for row in rows if row[0].get(term, 0) > 0]
    below = [row for row in rows if row[0].get(term, 0) < 0]
    found = [row for row in rows if not row[0].get(term, 0)]
    for one, first in above:
        for other, second in below:
            a, b = one[term], -other[term]
            terms = (one.keys() | other.keys()) - {term}
            both = {t: one.get(t, Fraction(0)) / a + other.get(t, Fraction(0)) / b for t in terms}
            found.append(({t: c for t, c in both.items() if c}, first or second))
    return found
