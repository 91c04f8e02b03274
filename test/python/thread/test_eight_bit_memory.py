"""Floats of 8 bits in device memory: read and written with every bit pattern, on chips with and
without instructions for them."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.scalar import ROUNDING_TO, UNARY, DType
from written_kernels.thread_kernels import Array, Kernel, Layout, blocked, memref

TYPES = tuple(ROUNDING_TO)
SHAPE = (16, 128)
PLACE = "[%c0, %c0] dims [0, 1] in_bounds [true, true]"


def copied(given: Array, out: Array, layout: Layout, kind: str, chip: str, warps: int = 4) -> None:
    """Copy through fragments of a type."""
    fragment = layout.fragment(kind)
    Kernel(
        f"""
    %x = thread.load_global %a0{PLACE} : {memref(given)} -> {fragment}
    thread.store_global %x, %a1{PLACE} : {fragment}, {memref(out)}
""",
        warps=warps,
        chip=chip,
    ).run(given, out)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_number_is_read(dtype: DType, vector: int, chip: str) -> None:
    given = np.resize(np.arange(256, dtype=np.uint8), SHAPE).view(dtype.numpy)
    out = np.zeros(SHAPE, np.float16)
    copied(given, out, blocked(*SHAPE, vector, 4), "f16", chip)
    np.testing.assert_array_equal(out, given.astype(np.float16))
    np.testing.assert_array_equal(np.signbit(out[given == 0]), np.signbit(given[given == 0]))


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_written_is_rounded(dtype: DType, chip: str) -> None:
    """All numbers of the type, and those between, next to and beyond them."""
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    numbers = np.unique(every[np.isfinite(every)])
    middle = (numbers[1:] + numbers[:-1]) / 2
    around = [np.nextafter(middle, np.float32(s)) for s in (-np.inf, np.inf)]
    far = np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 1e-40, -0.0], np.float32)
    given = np.resize(np.concatenate([numbers, middle, *around, far]), SHAPE)
    out = np.zeros(SHAPE, dtype.numpy)
    copied(given.astype(np.float32), out, blocked(*SHAPE, 4, 4), "f32", chip)
    expected = UNARY[ROUNDING_TO[dtype]].evaluate(given)
    np.testing.assert_array_equal(out.astype(np.float32), expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", TYPES)
def test_half_numbers_are_rounded_once(dtype: DType) -> None:
    given = np.resize(np.arange(1 << 16, dtype=np.uint16), (512, 128)).view(np.float16)
    out = np.zeros(given.shape, dtype.numpy)
    copied(given, out, blocked(512, 128, 4, 16), "f16", "sm_90a", 16)
    with np.errstate(all="ignore"):
        expected = UNARY[ROUNDING_TO[dtype]].evaluate(given.astype(np.float32))
    np.testing.assert_array_equal(out.astype(np.float32), expected)
