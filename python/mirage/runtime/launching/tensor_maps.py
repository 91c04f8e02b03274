"""Tensor maps as kernel parameters: 128 bytes each that hold a tensor's address.

The driver encodes them on the host. That takes a few µs, so the last encodings of each parameter
are kept: a program is called with few different buffers, mostly the same ones.
"""

from __future__ import annotations

import ctypes
from itertools import accumulate
from operator import mul
from typing import Any

from mirage.runtime.errors import DriverError
from mirage.runtime.serialization.manifest import ELEMENT_BYTES, TensorMap

BYTES = 128
ALIGNMENT = 64
ELEMENT_TYPES = {"f16": 6, "bf16": 9, "f32": 7, "f64": 8, "f8E4M3FN": 0, "f8E5M2": 0}
"""The numbers of the driver's CUtensorMapDataType."""
_TF32 = 11
"""The number of the one that rounds f32 to TF32."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""The numbers of the driver's CUtensorMapSwizzle."""
_KEPT = 1024  # layers that share a kernel have different weights


class TensorMapSlot:
    """Memory for one tensor map, aligned as the driver requires; ``update`` encodes the tensor at
    an address.
    """

    def __init__(self, spec: TensorMap) -> None:
        self.spec = spec
        self._room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        start = ctypes.addressof(self._room)
        self.pointer = -(-start // ALIGNMENT) * ALIGNMENT
        self._current = -1
        self._known: dict[int, bytes] = {}  # the last encodings, by address

    def update(self, address: int) -> None:
        """Encode the tensor at ``address``. Raises :class:`DriverError`."""
        if address == self._current:
            return
        data = self._known.get(address)
        if data is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            data = self._known[address] = encode(self.spec, address)
        ctypes.memmove(self.pointer, data, BYTES)
        self._current = address


def element_type(spec: TensorMap) -> int:
    """Return the driver's CUtensorMapDataType."""
    return _TF32 if spec.tf32 else ELEMENT_TYPES[spec.dtype]


def layout(spec: TensorMap) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the extents, the strides in bytes (except that of the innermost dimension), and the
    extents of the box, innermost dimension first, in the form that the driver takes."""
    shape, size = spec.shape[::-1], ELEMENT_BYTES[spec.dtype]
    steps = accumulate(shape[:-1], mul) if spec.strides is None else spec.strides[-2::-1]
    return shape, tuple(step * size for step in steps), spec.box[::-1]


def encode(spec: TensorMap, address: int) -> bytes:
    """Return the driver's description of the tensor at ``address``. Raises :class:`DriverError`."""
    from mirage.runtime.launching.cuda_driver import driver

    d = driver()
    shape, strides, box = layout(spec)
    code, tensor_map = d.cuTensorMapEncodeTiled(
        d.CUtensorMapDataType(element_type(spec)),
        len(shape),
        address,
        [d.cuuint64_t(n) for n in shape],
        [d.cuuint64_t(n) for n in strides],
        [d.cuuint32_t(n) for n in box],
        [d.cuuint32_t(1) for _ in shape],
        d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        d.CUtensorMapSwizzle(SWIZZLES[spec.swizzle]),
        d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if code != d.CUresult.CUDA_SUCCESS:
        raise DriverError(f"tensor map of {spec} at {address:#x}: {code.name}")
    return _bytes_of(tensor_map)


def _bytes_of(tensor_map: Any) -> bytes:
    return ctypes.string_at(tensor_map.getPtr(), BYTES)
