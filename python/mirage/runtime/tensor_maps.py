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
from mirage.runtime.manifest import ELEMENT_BYTES, TensorMap

BYTES = 128
ALIGNMENT = 64
_KEPT = 1024  # layers that share a kernel have weights of their own


class TensorMapSlot:
    """Room for one tensor map, aligned as the driver wants it; ``update`` makes it that of the
    tensor at an address.
    """

    def __init__(self, spec: TensorMap) -> None:
        self.spec = spec
        self._room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        start = ctypes.addressof(self._room)
        self.pointer = -(-start // ALIGNMENT) * ALIGNMENT
        self._current = -1
        self._encodings = Encodings(spec)

    def update(self, address: int) -> None:
        """Encodes the tensor at ``address``. Raises :class:`DriverError`."""
        if address == self._current:
            return
        ctypes.memmove(self.pointer, self._encodings(address), BYTES)
        self._current = address


class Encodings:
    """The last encodings of one parameter, by address. Raises :class:`DriverError`."""

    def __init__(self, spec: TensorMap) -> None:
        self.spec = spec
        self._known: dict[int, bytes] = {}

    def __call__(self, address: int) -> bytes:
        data = self._known.get(address)
        if data is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            data = self._known[address] = encode(self.spec, address)
        return data


def encode(spec: TensorMap, address: int) -> bytes:
    """The driver's description of the tensor at ``address``. Raises :class:`DriverError`."""
    from mirage.runtime.driver import driver

    d = driver()
    kinds = {
        "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
        "f8E4M3FN": "UINT8", "f8E5M2": "UINT8",
    }  # fmt: skip
    kind = getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kinds[spec.dtype]}")
    swizzle_name = f"{spec.swizzle}B" if spec.swizzle else "NONE"
    # Innermost dimension first; strides in bytes, without that of the innermost one.
    shape, box = spec.shape[::-1], spec.box[::-1]
    size = ELEMENT_BYTES[spec.dtype]
    dense = accumulate(shape[:-1], mul)
    steps = dense if spec.strides is None else spec.strides[-2::-1]
    strides = [step * size for step in steps]
    code, tensor_map = d.cuTensorMapEncodeTiled(
        kind,
        len(shape),
        address,
        [d.cuuint64_t(n) for n in shape],
        [d.cuuint64_t(n) for n in strides],
        [d.cuuint32_t(n) for n in box],
        [d.cuuint32_t(1) for _ in shape],
        d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle_name}"),
        d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if code != d.CUresult.CUDA_SUCCESS:
        raise DriverError(f"tensor map of {spec} at {address:#x}: {code.name}")
    return _bytes_of(tensor_map)


def _bytes_of(tensor_map: Any) -> bytes:
    return ctypes.string_at(tensor_map.getPtr(), BYTES)
