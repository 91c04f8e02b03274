"""Which sizes one set of kernels serves."""

from __future__ import annotations

FIRST = (4, 8, 32)
"""The largest sizes of the first classes."""
GROWTH = 2
"""How many times larger each class after them goes than the one before."""
MANY, GROWTH_OF_MANY = 8192, 4
"""Sizes that fill the chip many times over, and the growth beyond them: twelve classes for sizes
from 1 to 32768."""
MOST_CLASSES = 12
"""So many sets of kernels there are at most."""
ROWS = 16
"""The largest size of all is a multiple of that: rows of the smallest tile of products."""


def class_of(size: int, at_most: int) -> int:
    """The largest size of the class that has ``size``, where none is above ``at_most``."""
    last = -(-at_most // ROWS) * ROWS
    most = next((bound for bound in FIRST if size <= bound), FIRST[-1])
    while most < size:
        most *= GROWTH if most < MANY else GROWTH_OF_MANY
    return min(most, last)


def least_of(most: int) -> int:
    """The smallest size of the class that goes up to ``most``, which is one of :func:`class_of`."""
    below = 0
    while (bound := class_of(below + 1, most)) < most:
        below = bound
    return below + 1
