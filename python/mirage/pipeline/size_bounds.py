"""The classes of sizes that one set of kernels serves."""

from __future__ import annotations

FIRST = (4, 8, 32)
"""The largest sizes of the first classes."""
GROWTH = 2
"""The growth factor from one class to the next after the first ones."""
MANY, GROWTH_OF_MANY = 8192, 4
"""The sizes from which on the chip is filled many times over, and the growth factor beyond them:
twelve classes for sizes from 1 to 32768."""
MOST_CLASSES = 12
"""The largest number of size classes, each with its own set of kernels."""
ROWS = 16
"""The largest size of all is a multiple of this: the rows of the smallest tile of products."""


def class_of(size: int, at_most: int) -> int:
    """Return the largest size of the class that contains ``size``, if no size is above
    ``at_most``."""
    last = -(-at_most // ROWS) * ROWS
    most = next((bound for bound in FIRST if size <= bound), FIRST[-1])
    while most < size:
        most *= GROWTH if most < MANY else GROWTH_OF_MANY
    return min(most, last)


def least_of(most: int) -> int:
    """Return the smallest size of the class that ends at ``most``, which is a result of
    :func:`class_of`."""
    below = 0
    while (bound := class_of(below + 1, most)) < most:
        below = bound
    return below + 1
