"""NumPy arrays of Python objects, for arithmetics whose elements are no machine numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mirage.semantics.scalar import Array


def objects(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """The values, in row-major order, as an array of that shape."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def map_elements(function: Callable[[Any], Any], x: Array) -> Array:
    """``function`` of each element."""
    return objects([function(v) for v in x.ravel()], x.shape)


def as_array(x: Any) -> Array:
    """NumPy gives bare objects instead of rank-0 arrays of them."""
    return x if isinstance(x, np.ndarray) else objects([x], ())
