"""Products with held matrices that have one nonzero number in each column: they move columns.

If ``P[i, j]`` is zero except for ``P[i_j, j] = c_j``, column ``j`` of ``x P`` is ``c_j`` times
column ``i_j`` of ``x``, provided that all elements of ``x`` are finite. Neighbouring columns that
come from neighbouring columns, with the same factor, are one slice: a rotation of halves is two.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.ugraph import Contraction, Op, Value
from mirage.verify.normal_form.reading import Reading

_MOST = 16
"""The most slices as which a product is written."""


@dataclass(frozen=True)
class _Run:
    """Columns from ``first`` on, ``count`` of them, times ``factor``."""

    first: int
    count: int
    factor: float


def moved_columns_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a product with such a matrix as slices; None for other ops."""
    if not isinstance(op, Contraction) or len(op.operands) != 2:
        return None
    x, matrix = op.operands
    elements = reading.elements(matrix)
    if elements is None or elements.ndim != 2 or not reading.certain.is_finite(x):
        return None
    runs = _runs(elements)
    if runs is None:
        return None
    parts: list[Value] = []
    for run in runs:
        at = (*(0 for _ in x.shape[:-1]), run.first)
        sizes = (*x.shape[:-1], run.count)
        part = reading.write(lambda b, at=at, sizes=sizes: b.slice(x, at, sizes))
        if run.factor != 1.0:
            factor = Fraction(run.factor)
            part = reading.write(
                lambda b, v=part, c=factor: b.binary(BinaryFn.MUL, v, b.constant(c))
            )
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    return reading.write(lambda b: b.concat(tuple(parts), -1))


def _runs(matrix: Array) -> list[_Run] | None:
    """Return the columns that a product with ``matrix`` takes, in their order."""
    if not np.isfinite(matrix).all() or ((matrix != 0.0).sum(0) != 1).any():
        return None
    places = (matrix != 0.0).argmax(0)
    factors = matrix[places, np.arange(matrix.shape[1])]
    breaks = (np.diff(places) != 1) | (np.diff(factors) != 0.0)
    starts = [0, *(int(i) + 1 for i in np.flatnonzero(breaks)), len(places)]
    if len(starts) > _MOST + 1:
        return None
    return [
        _Run(int(places[start]), end - start, float(factors[start]))
        for start, end in pairwise(starts)
    ]
