"""The results of a program whose inputs are off by a few roundings to f32.

``log_softmax`` subtracts the maximum first, so for scores about 50 its errors are those of numbers
about 1. ``x - logsumexp(x)`` has errors of a rounding of 50, and so does every program whose scores
come from a kernel that has rounded them: rounding the inputs changes the result by just as much. No
computation in f32 needs to be more accurate than that. A loss of digits is not of this kind: a
variance of numbers about 300 hardly changes if each of them is rounded, while the difference of
their squares loses half of its digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.scalar import Array, DType
from mirage.verify.evidence.roundings.explicit import nearby

_CHOICE = 2.0**-7
"""A change of a row by more than this is a decision (which number is larger) and not a rounding: it
does not count."""


def off_by_a_rounding(
    inputs: Sequence[Sampled], types: Sequence[DType], fixed: frozenset[int], seed: int
) -> list[Sampled]:
    """Return inputs with relative changes as large as a few roundings to f32, whatever their types
    are; integers, f64 and the ``fixed`` inputs do not change."""
    kinds = [
        DType.I32 if i in fixed or t is DType.F64 or t.is_integer else DType.F32
        for i, t in enumerate(types)
    ]
    return nearby(inputs, kinds, (seed,))


def small_changes(exact: Array, changed: Array, usual: Array) -> Array:
    """Return the rows of ``changed`` that differ little from the ``exact`` ones, and the ``usual``
    ones in place of the others. A row runs along the last dimension."""
    x, c = (np.asarray(v, np.float64) for v in (exact, changed))
    known = np.isfinite(x) & np.isfinite(c)
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.where(known, c - x, 0.0)
        size = np.where(known, x, 0.0)
        little = (change**2).sum(-1, keepdims=True) <= _CHOICE**2 * (size**2).sum(-1, keepdims=True)
    return np.where(known & little, changed, usual)
