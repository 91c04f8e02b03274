"""What a mask leaves out may be no number.

A mask of truth values adds minus infinity to scores, or it chooses minus infinity in their place:
over the numbers that is the same. Of a NaN it is not, and which of the two an attention does is not
said: PyTorch's fused kernels choose, its composed ones add. So a candidate may do either.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.verify.evidence.samples.floats import Yardstick

_LEAST = -1.7e308
"""In the place of what a mask adds; a sum with a number is about that, too."""


class MasksChoose(Yardstick):
    """float64 in which what a mask leaves out is left out, whatever it is."""

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
