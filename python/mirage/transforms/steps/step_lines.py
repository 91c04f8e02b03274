"""Lines that bound the steps of loops: ``floor((slope * i + constant) / divisor)``, where ``i`` is
the number of a tile or of its group of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import gcd
from typing import TypeAlias

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import StepNumber

Line: TypeAlias = "tuple[int, int, int]"
"""``(slope, constant, divisor)``."""
EACH: Line = (1, 0, 1)
"""The number of a tile itself."""


def tightest_lines(
    bounds: Array, exists: Array, high: int, tile: int, groups: Sequence[Line], *, upper: bool
) -> tuple[Line, Line]:
    """Return the tightest line over tiles, or over groups of tiles, and the line that numbers the
    groups; see :func:`tightest_line`. ``groups`` are in the order in which they are preferred."""
    at = np.flatnonzero(exists)
    found: list[tuple[int, int, Line, Line]] = []
    for preference, group in enumerate(groups):
        slope, constant, divisor = group
        of = (slope * np.arange(len(bounds)) + constant) // divisor
        some = np.zeros(int(of[-1]) + 1, bool)
        some[of[at]] = True
        merged = np.full(len(some), 0 if upper else high)
        (np.maximum if upper else np.minimum).at(merged, of[at], bounds[at])
        line = tightest_line(merged, some, 0, high, tile, upper=upper)
        values = np.clip((line[0] * of[at] + line[1]) // line[2], 0, high)
        found.append((int(np.abs(values - bounds[at]).sum()), preference, line, group))
    return min(found)[2:]


def tightest_line(
    bounds: Array, exists: Array, low: int, high: int, tile: int, *, upper: bool
) -> Line:
    """``(slope, constant, divisor)`` of the tightest ``floor((slope * i + constant) / divisor)``
    that is nowhere below ``bounds`` (``upper``) or nowhere above; beyond ``low`` and ``high``
    numbers need not be distinguished."""
    at = np.flatnonzero(exists)
    if not len(at):
        return 0, (low if upper else high), 1
    wanted = bounds[at]
    free = at[(wanted > low) & (wanted < high)]
    best: tuple[tuple[int, int], Line] | None = None
    for divisor in sorted({1, tile}):
        for slope in _slopes(at, free, bounds, divisor):
            if upper:
                constant = int((divisor * wanted - slope * at).max())
            else:
                constant = int((divisor * wanted + divisor - 1 - slope * at).min())
            values = np.clip((slope * at + constant) // divisor, low, high)
            excess = int(np.abs(values - wanted).sum())
            rank = excess, divisor // gcd(divisor, slope)  # the simplest of equal ones
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
    named = (*x.terms, *x.reads, *x.quotients)
    common = gcd(x.divisor, *(n for _, n in named))
    return StepNumber(
        tuple((a, n // common) for a, n in x.terms),
        x.constant // common,
        x.divisor // common,
        tuple((i, n // common) for i, n in x.reads),
        tuple((q, n // common) for q, n in x.quotients),
    )
