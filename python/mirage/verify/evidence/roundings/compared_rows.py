"""The elements of an output whose errors are measured together, as one row."""

from __future__ import annotations

from math import prod

COLUMNS = 32
"""The fewest elements of a row: fewer say too little about its error."""


def joined_dims(shape: tuple[int, ...]) -> int:
    """Return how many dimensions, from the last one, are compared together: the dimension of a row,
    or several if rows are short."""
    n = shape[-1] if shape else 1
    found = min(1, len(shape))
    for size in reversed(shape[:-1]):
        if n >= COLUMNS // 2:
            break
        n *= size
        found += 1
    return found


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many elements are compared together."""
    return prod(shape[len(shape) - joined_dims(shape) :])
