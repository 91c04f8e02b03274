"""Rounding to f16 in f32 arithmetic gives NumPy's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.half import rounded_to_half, rounded_to_tf32
from mirage.semantics.scalar import Array, DType
from mirage.verify.evidence.roundings.explicit import without_underflow


def numpy_rounded(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


def agree(x: Array) -> bool:
    """Return whether the bits of numbers are the same, and NaN stays NaN."""
    expected = numpy_rounded(x)
    with np.errstate(over="ignore", invalid="ignore"):
        found = rounded_to_half(x)
    nan = np.isnan(expected)
    same = found.view(np.uint32) == expected.view(np.uint32)
    return bool((same | (nan & np.isnan(found))).all())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_all_numbers_of_f16_and_what_lies_between(sign: float) -> None:
    numbers = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (numbers[1:] + numbers[:-1]) / 2
    for exact in (numbers, middles):
        for x in (exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, -np.inf)):
            assert agree(np.float32(sign) * x.astype(np.float32))


def test_any_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 1 << 20, dtype=np.uint32)
    assert agree(bits.view(np.float32))


def test_the_ends() -> None:
    ends = np.array(
        [0.0, -0.0, 65504, 65519.996, 65520, -65520, 1e30, np.inf, -np.inf, np.nan], np.float32
    )
    assert agree(np.repeat(ends, 4096))
    tiny = np.array([2.0**-24, 2.0**-25, 2.0**-26, 1.5 * 2.0**-25, 1e-45, 2.0**-14], np.float32)
    assert agree(np.repeat(np.concatenate([tiny, -tiny]), 4096))


def test_arrays_that_are_parts_of_others() -> None:
    x = np.random.default_rng(1).standard_normal((64, 3, 96)).astype(np.float32) * 100
    for part in (x.transpose(2, 0, 1), x[::2, 1], np.broadcast_to(x[:, :1], x.shape), x[0, 0, 0]):
        assert agree(np.asarray(part))


def test_the_type_rounds_like_numpy() -> None:
    x = np.random.default_rng(2).standard_normal(5000).astype(np.float32)
    for dtype in (DType.F16, DType.BF16, DType.F32):
        expected = x.astype(dtype.numpy).astype(np.float64)
        assert np.array_equal(dtype.round(x), expected)
        assert np.array_equal(dtype.round(x.astype(np.float64)), expected)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_digits_of_small_numbers_are_kept(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    x = np.ldexp(rng.standard_normal(20000), rng.integers(-200, 140, 20000))
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520.0, 3.4e38]])
    # each number lifted to [1/2, 1), where both types have all their digits
    _, exponent = np.frexp(x)
    lift = np.where(np.isfinite(x) & (exponent < 0), -exponent, 0)
    expected = np.ldexp(dtype.round(np.ldexp(x, lift)), -lift)
    assert np.array_equal(without_underflow(x, dtype), expected, equal_nan=True)


def test_a_single_number() -> None:
    """Sums over all elements have rank 0."""
    for x in (1.0 + 2.0**-12, 2.0**-30 / 3.0, 1e9):
        found = without_underflow(np.asarray(x), DType.F16)
        assert found.shape == ()
        assert found == without_underflow(np.asarray([x]), DType.F16)[0]


def test_tf32_has_eleven_bits() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 1 << 16, dtype=np.uint32)
    x = bits.view(np.float32)
    found = rounded_to_tf32(x)
    finite = np.isfinite(x) & (np.abs(x) > 2.0**-126) & (np.abs(x) < 2.0**127)
    assert not (found.view(np.uint32)[finite] & 0x1FFF).any()
    exact = x[finite].astype(np.float64)
    assert (np.abs(found[finite] - exact) <= np.abs(exact) * 2.0**-11).all()
    special = ~np.isfinite(x)
    np.testing.assert_array_equal(found[special], x[special])
    numbers = np.float32([0.0, -0.0, 1.0, 1 + 2.0**-11, 1 + 2.0**-12])
    np.testing.assert_array_equal(rounded_to_tf32(numbers), np.float32([0, 0, 1, 1 + 2.0**-10, 1]))
