"""Lines that bound the steps of loops: ``floor((slope * i + constant) / divisor)``."""

from __future__ import annotations

from itertools import combinations
from math import gcd

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import StepNumber


def tightest_line(
    bounds: Array, exists: Array, low: int, high: int, tile: int, *, upper: bool
) -> tuple[int, int, int]:
    """Return ``(slope, constant, divisor)`` of the tightest ``floor((slope * i + constant) /
    divisor)`` that is nowhere below ``bounds`` (``upper``) or nowhere above them; all numbers
    beyond ``low`` and ``high`` are equivalent."""
    at = np.flatnonzero(exists)
    if not len(at):
        return 0, (low if upper else high), 1
    wanted = bounds[at]
    free = at[(wanted > low) & (wanted < high)]
    best: tuple[tuple[int, int], tuple[int, int, int]] | None = None
    for divisor in sorted({1, tile}):
        for slope in _slopes(at, free, bounds, divisor):
            if upper:
                constant = int((divisor * wanted - slope * at).max())
            else:
                constant = int((divisor * wanted + divisor - 1 - slope * at).min())
            values = np.clip((slope * at + constant) // divisor, low, high)
            excess = int(np.abs(values - wanted).sum())
            rank = excess, divisor // gcd(divisor, slope)  # of equal ones the simplest
            if best is None or rank < best[0]:
                best = rank, (slope, constant, divisor)
    assert best is not None
    return best[1]


def _slopes(at: Array, free: Array, bounds: Array, divisor: int) -> list[int]:
    """Return the possible slopes: those between bounds that are not at an end (``free``), or of
    which one is the first that is."""
    ends = {int(i) for i in (*free[:1], *free[-1:], *at[:1], *at[-1:])}
    ends |= {i for j in (*free[:1], *free[-1:]) for i in (int(j) - 1, int(j) + 1) if i in at}
    found = {0}
    for i, j in combinations(sorted(ends), 2):
        rise, near = divisor * int(bounds[j] - bounds[i]), divisor // (j - i) + 1
        found.update(range(rise // (j - i) - near, rise // (j - i) + near + 2))
    return sorted(found, key=abs)


def reduced(x: StepNumber) -> StepNumber:
    """Return an equal number with the smallest divisor."""
    common = gcd(x.divisor, *(n for _, n in (*x.terms, *x.reads)))
    terms = tuple((a, n // common) for a, n in x.terms)
    reads = tuple((i, n // common) for i, n in x.reads)
    return StepNumber(terms, x.constant // common, x.divisor // common, reads)
