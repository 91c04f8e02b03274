"""Whether some or all of an array of truth values are true.

Nearly every instruction asks that of a few hundred lanes, where counting takes a quarter of the
time of NumPy's ``any`` and ``all``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def any_of(flags: Array | np.bool_) -> bool:
    """Whether one is true (or not zero)."""
    return np.count_nonzero(flags) != 0


def all_of(flags: Array | np.bool_) -> bool:
    """Whether none is false; so it is where there are none."""
    return np.count_nonzero(flags) == flags.size
