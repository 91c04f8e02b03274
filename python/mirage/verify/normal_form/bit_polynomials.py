"""Functions of bits as sums of conjunctions.

A function that computes each bit of its result from the bits of its operands in the same place is a
polynomial in these bits: ``a ^ b`` is ``a + b - 2 a b``, where ``a b`` is the conjunction. The same
holds for the numbers, which are sums of their bits times powers of two (the last one negative). A
conjunction of no operands has all bits and is -1. Numbers that are such sums without being
functions of bits (``a + b``) are polynomials as well, but no conjunction can be taken of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import combinations

Polynomial = Mapping[frozenset[Hashable], int]
"""The factor of each conjunction; those that are left out have none."""

_MOST = 5
"""The most operands of a function."""

ONES: frozenset[Hashable] = frozenset()


def of_number(number: int) -> Polynomial:
    """Return a known number."""
    return {ONES: -number} if number else {}


def of_one(operand: Hashable) -> Polynomial:
    """Return an operand itself."""
    return {frozenset([operand]): 1}


def added(p: Polynomial, q: Polynomial, factor: int = 1) -> Polynomial:
    """Return ``p + factor * q``."""
    found = dict(p)
    for term, n in q.items():
        found[term] = found.get(term, 0) + factor * n
    return {term: n for term, n in found.items() if n}


def both(p: Polynomial, q: Polynomial) -> Polynomial:
    """Return the conjunction of two functions of bits."""
    found: dict[frozenset[Hashable], int] = {}
    for one, n in p.items():
        for other, m in q.items():
            found[one | other] = found.get(one | other, 0) + n * m
    return {term: n for term, n in found.items() if n}


def is_of_bits(p: Polynomial) -> bool:
    """Return whether a polynomial is 0 or 1 for all bits of not too many operands: then it is a
    function of bits."""
    operands = operands_of(p)
    if len(operands) > _MOST:
        return False
    chosen = (frozenset(c) for n in range(len(operands) + 1) for c in combinations(operands, n))
    return all(sum(n for term, n in p.items() if term <= ones) in (0, 1) for ones in chosen)


def operands_of(p: Polynomial) -> list[Hashable]:
    """Return the operands that occur, in any order."""
    return list({operand for term in p for operand in term})


def is_small(*polynomials: Polynomial) -> bool:
    """Return whether a function of several polynomials has not too many operands."""
    return len({v for p in polynomials for v in operands_of(p)}) <= _MOST
