"""Maxima over dimensions, computed as repeated maxima of two values."""

from __future__ import annotations

import numpy as np

from mirage.semantics.domain import Domain, Planes
from mirage.semantics.scalar import BinaryFn, DType


def pairwise_maxima(domain: Domain, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
    """Return the maximum over ``dims``, which keep size 1, by the domain's own maximum of two
    values."""
    for d in dims:
        parts = np.moveaxis(x[0], d, 0)
        found: Planes = (parts[0],)
        for part in parts[1:]:
            found = domain.binary(BinaryFn.MAX, found, (part,), dtype)
        x = (np.expand_dims(found[0], d),)
    return x
