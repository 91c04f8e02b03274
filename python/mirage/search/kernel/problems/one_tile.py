"""Which values one derivation may compute, and which ones a kernel may compute side by side."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import mul

from mirage.semantics.ugraph import TensorType

NARROWEST = 16
"""The smallest tile extent along an axis of the rows or columns of a product that is longer."""
MOST_TIMES = 16
"""The largest ratio of the sizes of values that a kernel computes side by side."""
LEAST = 128
"""The least size of such a value: there must be a tile for each of many blocks."""


def one_tile(first: TensorType, second: TensorType) -> bool:
    """Return whether a tile of one value has the axes of a tile of the other: they have the same
    shape, or one has size 1, or dimensions of one are several of the other, or one has a number for
    each part of the other's rows."""
    large, small = sorted((first, second), key=lambda t: -t.size)
    if of_parts_of_rows(small.shape, large.shape):
        return True
    if large.size == small.size and regrouped(large.shape, small.shape):
        return True
    rank = len(small.shape)
    if rank > len(large.shape):
        return False
    aligned = zip(small.shape, large.shape[len(large.shape) - rank :], strict=True)
    return all(a in (1, b) for a, b in aligned)


def regrouped(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Return whether each dimension of one shape is the product of consecutive dimensions of the
    other, ignoring sizes of 1: 1024 is 8 times 128."""
    short, long = sorted((tuple(n for n in s if n > 1) for s in (first, second)), key=len)
    places = list(accumulate(long, mul))
    return all(p in places for p in accumulate(short, mul)) and prod(short) == prod(long)


def of_parts_of_rows(shape: tuple[int, ...], rows: tuple[int, ...]) -> bool:
    """Return whether a tensor of a shape may have a number for each of the equal parts of rows."""
    if len(shape) != len(rows) + 1 or not rows:
        return False
    *lead, parts, one = shape
    return tuple(lead) == rows[:-1] and one == 1 < parts and rows[-1] % parts == 0


def side_by_side(first: TensorType, second: TensorType) -> bool:
    """Return whether the same number of blocks can compute tiles of both values, whose tiles have
    different axes: the larger value is a multiple of the smaller one, or the larger one has as many
    narrowest tiles as the smaller one has tiles of whole columns."""
    large, small = sorted((first.size, second.size), reverse=True)
    as_many = large % small == 0 or NARROWEST * small % large == 0
    return small >= LEAST and as_many and large <= MOST_TIMES * small
