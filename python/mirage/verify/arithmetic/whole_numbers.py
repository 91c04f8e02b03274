"""Quotients of whole numbers in one form.

``(n a + b) // n = a + b // n`` for whole ``a`` and ``b``, ``(-b) // n = -((b + n - 1) // n)``, ``(g
b + c) // (g n) = (b + c // g) // n`` and ``(b // m + c) // n = (b + c m) // (m n)``. So a quotient
is a sum of whole numbers and at most one quotient that none of these rules simplifies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Term = tuple[int, int]
Sum = Mapping[Term, int]
_UNIT: Term = (0, 0)


@dataclass(frozen=True)
class Quotient:
    """The number ``whole + sign * (rest // by)``; there is no second term if ``rest`` is empty."""

    whole: Sum
    sign: int
    rest: Sum
    by: int


def quotient(a: Sum, n: int) -> Quotient:
    """Return ``a // n`` for a sum ``a`` of whole terms with whole coefficients, and a positive
    ``n``."""
    whole: dict[Term, int] = {}
    rest: dict[Term, int] = {}
    for term, c in a.items():
        times, left = divmod(c, n)
        if term != _UNIT and 2 * left > n:
            times, left = times + 1, left - n
        whole[term], rest[term] = times, left
    terms = sorted(t for t, c in rest.items() if c and t != _UNIT)
    constant = rest.get(_UNIT, 0)
    whole = {t: c for t, c in whole.items() if c}
    if not terms:  # 0 <= constant < n
        return Quotient(whole, 1, {}, 1)
    sign = 1
    if rest[terms[0]] < 0:
        sign, constant = -1, n - 1 - constant
        rest = {t: -rest[t] for t in terms}
    common = math.gcd(n, *(rest[t] for t in terms))
    left = {t: rest[t] // common for t in terms}
    if constant // common:
        left[_UNIT] = constant // common
    if common == n:  # whole terms only
        return Quotient(_sum(whole, left, sign), 1, {}, 1)
    return Quotient(whole, sign, left, n // common)


def _sum(a: Sum, b: Sum, sign: int) -> Sum:
    found = dict(a)
    for t, c in b.items():
        found[t] = found.get(t, 0) + sign * c
    return {t: c for t, c in found.items() if c}
