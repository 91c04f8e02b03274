"""Predicted times of kernels whose blocks do the same work, as often happens with derivations that
group the same ops differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.kernel_time import estimate
from mirage.cost.target import Target

Num = Any
_Sample = tuple[object, ...]
_Known = list[tuple[list[Num], Num]]


@dataclass
class KnownTimes:
    """The times by features, on one target and at the same sizes."""

    _found: dict[_Sample, _Known] = field(default_factory=dict["_Sample", "_Known"])

    def of(self, features: KernelFeatures, target: Target) -> Num:
        """Return the µs of kernels with these features, at all sizes."""
        given = sorted(vars(features).items())
        arrays = [v for _, v in given if isinstance(v, np.ndarray) and v.size]
        others = self._found.setdefault(_sample(given), [])
        for known, time in others:
            if _equal(known, arrays):
                return time
        time = estimate(features, target)["time"]
        others.append((arrays, time))
        return time

    def clear(self) -> None:
        """Forget all times."""
        self._found.clear()


def _sample(given: Sequence[tuple[str, Num]]) -> _Sample:
    """Return a key: names, numbers, and two entries of each array."""
    return tuple(
        (k, v.item(0), v.item(v.size // 2)) if isinstance(v, np.ndarray) and v.size else (k, v)
        for k, v in given
    )


def _equal(arrays: Sequence[Num], others: Sequence[Num]) -> bool:
    """Return whether arrays are equal, comparing identities first."""
    pairs = zip(arrays, others, strict=True)
    return all(a is b or np.array_equal(a, b) for a, b in pairs)
