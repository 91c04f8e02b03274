"""Tensor maps for bulk tensor copies: the arguments of `cuTensorMapEncodeTiled`, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

from mirage.emulator.errors import DescriptorError

Swizzle = Literal["none", "32B", "64B", "128B"]
OobFill = Literal["zero", "nan"]

SWIZZLE_BYTES: dict[Swizzle, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_FLOATS = {np.dtype(t) for t in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)}


def _fail(what: str, expected: str, actual: object) -> DescriptorError:
    return DescriptorError(f"tensor map: {what} must be {expected}, got {actual}")


@dataclass(frozen=True)
class TensorMap:
    """A tiled view of `array` for `cp.async.bulk.tensor`.

    array: the tensor in global memory, rank 1 to 5, row major as NumPy shows it: the *last* axis is
        the innermost dimension (CUDA's dimension 0). Its innermost stride must be one element.
    box: the tile in elements, in the order of `array.shape`.
    element_strides: traversal stride of each dimension, in the same order; 1 for the innermost.
    swizzle: how 16-byte chunks are permuted in shared memory; the inner box extent in bytes may not
        exceed it.
    oob_fill: what elements outside the tensor become.
    tf32: whether a copy to shared memory rounds elements of f32 to TF32 (the driver's
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32).

    Raises DescriptorError where the driver's encoder would refuse (CUDA driver API,
    cuTensorMapEncodeTiled).
    """

    array: np.ndarray[Any, Any]
    box: tuple[int, ...]
    swizzle: Swizzle = "none"
    oob_fill: OobFill = "zero"
    element_strides: tuple[int, ...] | None = None
    tf32: bool = False

    def __post_init__(self) -> None:
        array, size = self.array, self.array.dtype.itemsize
        if not 1 <= array.ndim <= 5:
            raise _fail("rank", "1 to 5", array.ndim)
        if len(self.box) != array.ndim:
            raise _fail("box rank", f"the array's, {array.ndim}", len(self.box))
        if self.swizzle not in SWIZZLE_BYTES:
            raise _fail("swizzle", f"one of {list(SWIZZLE_BYTES)}", repr(self.swizzle))
        if self.oob_fill not in ("zero", "nan"):
            raise _fail("out-of-bounds fill", "'zero' or 'nan'", repr(self.oob_fill))
        if self.oob_fill == "nan" and array.dtype not in _FLOATS:
            raise _fail("element type with NaN fill", "floating point", array.dtype)
        if self.tf32 and array.dtype != np.float32:
            raise _fail("element type that is rounded to TF32", "float32", array.dtype)
        if any(not 1 <= extent <= 256 for extent in self.box):
            raise _fail("box extents", "1 to 256", self.box)
        if any(not 1 <= extent <= 2**32 for extent in array.shape):
            raise _fail("extents", "1 to 2^32", array.shape)
        if array.strides[-1] != size and array.shape[-1] > 1:
            raise _fail("innermost stride", f"{size} bytes", array.strides[-1])
        for stride in array.strides[:-1]:
            if stride % 16 or not 0 <= stride < 2**40:
                raise _fail("strides", "multiples of 16 bytes below 2^40", array.strides)
        strides = self.strides
        if len(strides) != array.ndim or any(not 1 <= s <= 8 for s in strides):
            raise _fail("element strides", f"{array.ndim} values from 1 to 8", strides)
        if strides[-1] != 1:  # the driver would silently take 1
            raise _fail("innermost element stride", "1", strides[-1])
        inner = self.box[-1] * size
        if inner % 16:
            raise _fail("inner box extent in bytes", "a multiple of 16", inner)
        span = SWIZZLE_BYTES[self.swizzle]
        if span and inner > span:
            raise _fail(
                f"inner box extent in bytes with {self.swizzle} swizzle", f"<= {span}", inner
            )

    @property
    def strides(self) -> tuple[int, ...]:
        """Element strides, ones where not given."""
        return self.element_strides or (1,) * self.array.ndim
