"""NaN in masked elements.

A mask of truth values adds minus infinity to scores, or it chooses minus infinity in their place.
For numbers the two are the same; for a NaN they are not, and the definition of attention does not
say which one applies: PyTorch's fused kernels choose, its composed ones add. So a candidate may do
either.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.verify.evidence.samples.floats import Yardstick

_LEAST = -1.7e308
"""The number that replaces the minus infinity that a mask adds; a sum of it and a score is about
this number, too."""


class MasksChoose(Yardstick):
    """float64 in which masks replace elements, whatever these are, instead of adding to them."""

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        y = super().unary(fn, x, dtype)
        if fn is not UnaryFn.BIAS:
            return y
        return (np.where(np.isneginf(y[0]), _LEAST, y[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        y = super().binary(fn, a, b, dtype)
        if fn is not BinaryFn.ADD:
            return y
        left_out = (a[0] == _LEAST) | (b[0] == _LEAST)
        return (np.where(left_out & np.isnan(y[0]), _LEAST, y[0]),)
