"""Integers and truth values as programs have them, for tests in floating point.

Normal numbers say little about a program that compares positions: a mask of them is noise, and no
two of them are equal. So integer inputs are positions along their last dimension that has several
elements half of the time, else whole numbers below the size of that dimension; truth values are
true more often than not.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.indices import Region, region_shape
from mirage.semantics.op import Value
from mirage.semantics.scalar import Array, DType

_TRUE = 0.7
_SMALL = 8


def draw_integers(rng: np.random.Generator, value: Value, region: Region) -> Array:
    """The part of an integer input that ``region`` says, in float64."""
    shape = region_shape(region, value.shape)
    if value.dtype is DType.I1:
        return (rng.random(shape) < _TRUE).astype(np.float64)
    long = [d for d, n in enumerate(value.shape) if n > 1]
    if long and rng.random() < 0.5:
        dim = long[-1]
        index = region[dim]
        along = np.arange(value.shape[dim]) if index is None else index
        where = tuple(-1 if d == dim else 1 for d in range(len(shape)))
        return np.broadcast_to(along.reshape(where), shape).astype(np.float64)
    most = max(_SMALL, value.shape[long[-1]] if long else 1)
    if value.dtype is DType.I8:
        most = min(most, 128)
    return rng.integers(0, most, shape).astype(np.float64)
