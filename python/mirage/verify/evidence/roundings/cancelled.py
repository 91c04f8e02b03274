"""Constants that cancel out over the real numbers.

``(x + 12582912.) - 12582912.`` is ``x`` for any constant: the constant serves only to round. A
difference of two norms loses as many digits, but it contains no such constant, and a candidate that
keeps more digits of it is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.real_sizes import constants_of
from mirage.verify.evidence.samples.sampled_outputs import Sample

_LARGE, _LARGEST = 16, 2**100
_MOST = 6
_ANOTHER = Fraction(5, 4)
_SAME = 1e-6


class _WithAnother(Yardstick):
    """float64 with another number in place of a constant (and of its negative)."""

    def __init__(self, constant: Fraction) -> None:
        super().__init__()
        self._constant = constant

    def constant(self, value: Number, dtype: DType) -> Planes:
        number = as_number(value)
        if isinstance(number, Fraction) and abs(number) == self._constant:
            return super().constant(number * _ANOTHER, dtype)
        return super().constant(value, dtype)


def has_cancelled_constant(
    graph: KernelGraph, exact: Sequence[Array], inputs: Sequence[Sampled], sample: Sample
) -> bool:
    """Return whether a large constant could be replaced without changing what the program computes
    over the real numbers, which is ``exact`` for these inputs."""
    large = {abs(c) for c in constants_of(graph) if _LARGE <= abs(c) <= _LARGEST}
    for constant in sorted(large, reverse=True)[:_MOST]:
        found = outputs_of(graph, 0, _WithAnother(constant), inputs, sample)
        if all(_is_same(x, y) for x, y in zip(exact, found, strict=True)):
            return True
    return False


def _is_same(x: Array, y: Array) -> bool:
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any() or (np.isfinite(x) != np.isfinite(y)).any():
        return False
    size = float(np.sqrt(np.mean(x[known] ** 2)))
    return bool((np.abs(x - y)[known] <= _SAME * size).all())
