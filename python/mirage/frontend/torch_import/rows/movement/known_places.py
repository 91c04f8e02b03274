"""Lookups by indices that are known when a program is imported, as joins of slices.

A tensor padded with its own elements (reflected, repeated, or from the other end) consists of a few
slices, which are addresses of loads. A lookup along an inner dimension would need the tensor in
another order in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import Value

MOST_PIECES = 8
"""The most slices that are joined: each is stored separately."""


def joined(b: Lowering, x: Value, dim: int, index: Value) -> Value | None:
    """Return the parts of ``x`` that an index of rank 1 selects along a dimension; None if they are
    not known to be a few slices. Rows of a tensor (``dim`` of 0) are looked up where they are, with
    the index as a table, unless all numbers of the index are equal."""
    numbers = _one_number(b, index)
    if numbers is None and dim:
        numbers = b.held.get(index)
    if numbers is None or numbers.ndim != 1 or not numbers.size:
        return None
    size = x.shape[dim]
    numbers = np.where(numbers < 0, numbers + size, numbers)
    if numbers.min() < 0 or numbers.max() >= size:
        return None
    found = list(pieces(numbers))
    if len(found) > MOST_PIECES:
        return None
    parts = [_part(b, x, dim, *piece) for piece in found]
    return parts[0] if len(parts) == 1 else b.concat(tuple(parts), dim)


def _one_number(b: Lowering, index: Value) -> Array | None:
    """Return the elements of an index that are known to be one number."""
    number = b.number_of(index)
    return None if number is None else np.full(index.shape, int(number))


def _part(b: Lowering, x: Value, dim: int, start: int, length: int, step: int) -> Value:
    part = b.cut(x, dim, start, length if step else 1)
    return b.spread(part, tuple(length if d == dim else n for d, n in enumerate(x.shape)))


def pieces(numbers: Array) -> Iterator[tuple[int, int, int]]:
    """Yield the first number, the length and the step of runs of equal or consecutive numbers. The
    last of several equal numbers begins the run of consecutive numbers after it, so that the whole
    tensor is one run between the repetitions at its ends."""
    start = 0
    while start < numbers.size:
        rest = np.diff(numbers[start:])
        step = int(rest[0]) if rest.size and rest[0] in (0, 1) else 1
        other = np.flatnonzero(rest != step)
        length = int(other[0]) + 1 if other.size else numbers.size - start
        if step == 0 and other.size and rest[other[0]] == 1:
            length -= 1
        yield int(numbers[start]), length, step
        start += length
