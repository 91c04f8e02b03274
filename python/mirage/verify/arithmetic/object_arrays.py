"""NumPy arrays of Python objects, for arithmetics whose elements are not machine numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mirage.semantics.scalar import Array


def objects(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """Make an array of ``shape`` from the values, in row-major order."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def map_elements(function: Callable[[Any], Any], x: Array) -> Array:
    """Apply ``function`` to each element."""
    return objects([function(v) for v in x.ravel()], x.shape)


def as_array(x: Any) -> Array:
    """Wrap a bare object as a rank-0 array; NumPy returns the bare object in its place."""
    return x if isinstance(x, np.ndarray) else objects([x], ())
