"""The part of a tensor that corresponds to a part of its reshaped form."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mirage.semantics.indexing.indices import (
    Group,
    Indices,
    Region,
    reshape_groups,
    simplify,
)
from mirage.semantics.scalar import Array

_MOST = 1 << 16
"""The most elements of a group of dimensions whose numbers are computed; if there are more, all are
taken."""


def regrouped(
    region: Region, operand: Sequence[int], result: Sequence[int]
) -> tuple[Region, Region]:
    """Return the smallest region of the operand of a reshape that contains the wanted region of its
    result, and the region of the result that it gives, which may be larger: a run of joined
    dimensions consists of whole rows and columns."""
    source: list[Indices] = [None] * len(operand)
    made: list[Indices] = [None] * len(result)
    for group in reshape_groups(tuple(operand), tuple(result)):
        if group.kept:
            source[group.operand[0]] = made[group.result[0]] = region[group.result[0]]
        elif any(region[d] is not None for d in group.result):
            _regroup(group, region, (operand, result), source, made)
    return tuple(source), tuple(made)


def _regroup(
    group: Group,
    region: Region,
    shapes: tuple[Sequence[int], Sequence[int]],
    source: list[Indices],
    made: list[Indices],
) -> None:
    """Fill in the dimensions of one group, if one side of it is a single dimension; otherwise all
    indices are needed."""
    operand, result = shapes
    first = [d for d in group.operand if operand[d] != 1]
    last = [d for d in group.result if result[d] != 1]
    empty = any(result[d] == 1 and len(_indices(region[d], 1)) == 0 for d in group.result)
    if empty or 1 not in (len(first), len(last)) or any(operand[d] == 0 for d in first):
        return
    wanted = [_indices(region[d], result[d]) for d in last]
    if prod(map(len, wanted)) > _MOST:
        return
    places = _numbers(wanted, [result[d] for d in last])
    parts = np.unravel_index(places, [operand[d] for d in first])
    taken = [_distinct(part, operand[d]) for d, part in zip(first, parts, strict=True)]
    if prod(map(len, taken)) > _MOST:
        return
    for d, indices in zip(first, taken, strict=True):
        source[d] = simplify(indices, operand[d])
    if len(last) > 1:  # a single dimension: exactly the wanted indices
        for d in last:
            made[d] = region[d]
    else:
        places = _numbers(taken, [operand[d] for d in first])
        made[last[0]] = simplify(places, result[last[0]])


def _indices(indices: Indices, size: int) -> Array:
    return np.arange(size) if indices is None else indices


def _distinct(indices: Array, size: int) -> Array:
    """Return indices of a dimension in order, each once."""
    found = np.zeros(size, dtype=bool)
    found[indices] = True
    return np.flatnonzero(found)


def _numbers(indices: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return the numbers of all combinations of indices, in row-major order."""
    number = np.zeros(1, dtype=np.int64)
    for each, size in zip(indices, sizes, strict=True):
        number = (number[:, None] * size + each).ravel()
    return number
