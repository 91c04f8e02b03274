"""Sets of indices of a tensor, dimension by dimension, and the matching of dimensions by
reshapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mirage.semantics.scalar import Array

Indices: TypeAlias = "Array | None"
"""The sorted indices of a dimension; ``None`` means all of them."""

Region: TypeAlias = "tuple[Indices, ...]"
"""For each dimension the sorted indices of interest; ``None`` means all of them."""


def whole(rank: int) -> Region:
    """Return the region that is all of a tensor of this rank."""
    return (None,) * rank


def region_shape(region: Region, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of selected indices in each dimension."""
    return tuple([n if r is None else len(r) for r, n in zip(region, shape, strict=True)])


def union(a: Region, b: Region, shape: tuple[int, ...]) -> Region:
    """Return the smallest region that contains both."""
    return tuple(
        None if x is None or y is None else simplify(either(x, y), n)
        for x, y, n in zip(a, b, shape, strict=True)
    )


def either(x: Array, y: Array) -> Array:
    """Return the sorted union of two sorted arrays."""
    if x is y or np.array_equal(x, y):
        return x
    return distinct(np.sort(np.concatenate((x, y))))


def distinct(x: Array) -> Array:
    """Return a sorted array without duplicates."""
    return x[np.concatenate(([True], x[1:] != x[:-1]))] if len(x) > 1 else x


def simplify(index: Array, size: int) -> Indices:
    """Return ``None`` if these are all indices of a dimension, and the indices otherwise."""
    return None if len(index) == size else index


def aligned(region: Region, shape: tuple[int, ...]) -> Region:
    """Return the region of a tensor of ``shape`` that is needed if it broadcasts to a result of
    which ``region`` is wanted.
    """
    last = region[len(region) - len(shape) :]
    return tuple([None if n == 1 else r for r, n in zip(last, shape, strict=True)])


def inside(wanted: Indices, start: int, size: int) -> Indices:
    """Return the indices of ``wanted`` that lie in a block of a dimension, counted from the block's
    start."""
    if wanted is None:
        return None
    return simplify(wanted[(wanted >= start) & (wanted < start + size)] - start, size)


@dataclass(frozen=True)
class Group:
    """Consecutive dimensions of a reshape's operand and result that hold the same elements."""

    operand: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def kept(self) -> bool:
        """Whether this is a single dimension that the reshape does not change."""
        return len(self.operand) == len(self.result) == 1


def reshape_groups(operand: tuple[int, ...], result: tuple[int, ...]) -> tuple[Group, ...]:
    """Return the finest matching of consecutive dimensions with equal numbers of elements. If there
    are no elements, all dimensions are one group."""
    if 0 in operand:
        return (Group(tuple(range(len(operand))), tuple(range(len(result)))),)
    groups: list[Group] = []
    i = j = 0
    while i < len(operand) or j < len(result):
        first_i, first_j = i, j
        a = b = 1
        if i < len(operand):
            a, i = a * operand[i], i + 1
        if j < len(result):
            b, j = b * result[j], j + 1
        while a != b:
            if (a < b and i < len(operand)) or j >= len(result):
                a, i = a * operand[i], i + 1
            else:
                b, j = b * result[j], j + 1
        groups.append(Group(tuple(range(first_i, i)), tuple(range(first_j, j))))
    return tuple(groups)


def unit_free_dims(source: tuple[int, ...], result: tuple[int, ...]) -> dict[int, int] | None:
    """Map result dimensions to source dimensions for a reshape that only adds or drops dimensions
    of size 1; None for other reshapes.
    """
    a = [d for d, n in enumerate(source) if n != 1]
    b = [d for d, n in enumerate(result) if n != 1]
    if [source[d] for d in a] != [result[d] for d in b]:
        return None
    found = dict(zip(b, a, strict=True))
    # Dimensions of size 1 are matched too where that is unambiguous: those between the same
    # neighbours, in order.
    bounds_a, bounds_b = [-1, *a, len(source)], [-1, *b, len(result)]
    for i in range(len(bounds_a) - 1):
        ones_a = range(bounds_a[i] + 1, bounds_a[i + 1])
        ones_b = range(bounds_b[i] + 1, bounds_b[i + 1])
        if len(ones_a) == len(ones_b):
            found.update(zip(ones_b, ones_a, strict=True))
    return found


def equal_dims(source: tuple[int, ...], result: tuple[int, ...]) -> dict[int, int]:
    """Map result dimensions to source dimensions, aligned at the last one, where their sizes
    agree."""
    lead = len(result) - len(source)
    return {d + lead: d for d, n in enumerate(source) if n == result[d + lead]}
