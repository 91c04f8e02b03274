"""Scalar functions in PTX against float64, over the ranges that ScalarFunctions.cpp states."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, UnaryFn
from thorough import some_of
from written_kernels.thread_kernels import Array, Kernel, blocked, memref

U = 2.0**-24
SHAPE = (32, 128)
LAYOUT = blocked(*SHAPE, 4, 4)
RNG = np.random.default_rng(3)


def everywhere(low: float, high: float) -> Array:
    """Return numbers of all magnitudes between `low` and `high`, with both signs if the range
    contains both."""
    count = SHAPE[0] * SHAPE[1]
    exponents = RNG.uniform(-30, np.log2(max(abs(low), abs(high))), count)
    signs = np.where(RNG.random(count) < 0.5, -1.0, 1.0)
    values = np.concatenate([(signs * 2.0**exponents)[::2], RNG.uniform(low, high, count)[::2]])
    return np.clip(values, low, high).astype(np.float32).reshape(SHAPE)


def apply(op: str, *arrays: Array, constant: float | None = None) -> Array:
    """Runs one op on fragments loaded from the arrays."""
    out = np.zeros_like(arrays[0])
    fragment = LAYOUT.fragment("f32" if arrays[0].dtype == np.float32 else "f16")
    if arrays[0].dtype == ml_dtypes.bfloat16:
        fragment = LAYOUT.fragment("bf16")
    place = "[%c0, %c0] dims [0, 1] in_bounds [true, true]"
    loads = "\n".join(
        f"    %x{i} = thread.load_global %a{i}{place} : {memref(a)} -> {fragment}"
        for i, a in enumerate(arrays)
    )
    names = ", ".join(f"%x{i}" for i in range(len(arrays)))
    if constant is not None:
        loads += f"\n    %y = thread.constant {constant:.17e} : {fragment}"
        names += ", %y"
    body = f"""
{loads}
    %r = thread.{op} {names} : {fragment}
    thread.store_global %r, %a{len(arrays)}{place} : {fragment}, {memref(out)}
"""
    Kernel(body).run(*arrays, out)
    return out


def test_exp_of_a_difference_that_is_rounded() -> None:
    """The difference is exact if its operands are loaded, even if only 16 bits are needed."""
    x = RNG.uniform(-40, 0, SHAPE).astype(np.float32)
    low = np.full(SHAPE, 300.0, np.float32) + RNG.uniform(0, 100, SHAPE).astype(np.float32)
    wide, narrow = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float16)
    f32, f16 = LAYOUT.fragment("f32"), LAYOUT.fragment("f16")
    place = "[%c0, %c0] dims [0, 1] in_bounds [true, true]"
    body = f"""
    %x = thread.load_global %a0{place} : {memref(x)} -> {f32}
    %m = thread.load_global %a1{place} : {memref(low)} -> {f32}
    %c = thread.constant 5.000000e-01 : {f32}
    %s = thread.binary mul %x, %c : {f32}
    %d = thread.binary sub %s, %m : {f32}
    %e = thread.unary exp %d : {f32}
    %r = thread.cast %e : {f32} -> {f16}
    thread.store_global %e, %a2{place} : {f32}, {memref(wide)}
    thread.store_global %r, %a3{place} : {f16}, {memref(narrow)}
"""
    left = (2 * (low + x)).astype(np.float32)
    Kernel(body).run(left, low, wide, narrow)
    exact = left.astype(np.float64) / 2 - low
    bound = 4 + 2.5 * np.abs(exact)
    expected = np.exp(exact)
    assert np.all(np.abs(wide - expected) <= bound * U * expected)
    assert np.all(np.abs(narrow - expected) <= 2.0**-10 * expected + 2.0**-24)


def test_gelu_that_is_rounded() -> None:
    """Exact to 2^-16 if only 16 bits of it are used."""
    x = everywhere(-5, 80)
    out = np.zeros(SHAPE, ml_dtypes.bfloat16)
    halves = np.zeros(SHAPE, np.float16)
    f32 = LAYOUT.fragment("f32")
    place = "[%c0, %c0] dims [0, 1] in_bounds [true, true]"
    body = f"""
    %x = thread.load_global %a0{place} : {memref(x)} -> {f32}
    %g = thread.unary gelu %x : {f32}
    %b = thread.cast %g : {f32} -> {LAYOUT.fragment("bf16")}
    %h = thread.cast %g : {f32} -> {LAYOUT.fragment("f16")}
    thread.store_global %b, %a1{place} : {LAYOUT.fragment("bf16")}, {memref(out)}
    thread.store_global %h, %a2{place} : {LAYOUT.fragment("f16")}, {memref(halves)}
"""
    Kernel(body).run(x, out, halves)
    expected = x * 0.5 * np.vectorize(math.erfc)(-x.astype(np.float64) / np.sqrt(2))
    coarse = 2.0**-16 * np.abs(expected)
    assert np.all(np.abs(out - expected) <= 2.0**-8 * np.abs(expected) + coarse)
    assert np.all(np.abs(halves - expected) <= 2.0**-11 * np.abs(expected) + 2.0**-25 + coarse)


RANGES: dict[UnaryFn, tuple[float, float, float]] = {
    # lowest and highest argument, bound of the relative error in units of 2^-24
    UnaryFn.NEG: (-1e30, 1e30, 0),
    UnaryFn.ABS: (-1e30, 1e30, 0),
    UnaryFn.RELU: (-1e30, 1e30, 0),
    UnaryFn.SQUARE: (-1e15, 1e15, 1),
    UnaryFn.SQRT: (0, 1e30, 1),
    UnaryFn.RSQRT: (1e-9, 1e30, 4),
    UnaryFn.RECIPROCAL: (-1e30, 1e30, 4),
    UnaryFn.EXP: (-87, 88, 8 + 1.5 * 88),
    UnaryFn.LOG: (1e-9, 1e30, 4),
    UnaryFn.LOG1P: (-0.9999999, 3e38, 2),
    UnaryFn.SIGMOID: (-80, 80, 12 + 1.5 * 80),
    UnaryFn.SILU: (-80, 80, 12 + 1.5 * 80),
    UnaryFn.GELU: (-5, 80, 40),
    UnaryFn.GELU_TANH: (-5, 80, 60),
    UnaryFn.TANH: (-80, 80, 6),
    UnaryFn.NOT: (-1e30, 1e30, 0),
    UnaryFn.BIAS: (1e-9, 1e30, 0),
    UnaryFn.FLOOR: (-1e7, 1e7, 0),
    UnaryFn.ROUND_E4M3: (-500, 500, 0),
    UnaryFn.ROUND_E5M2: (-6e4, 6e4, 0),
    # where they are not small: elsewhere the error is absolute, see below
    UnaryFn.SIN: (-0.7, 0.7, 4),
    UnaryFn.COS: (-0.7, 0.7, 4),
}


@pytest.mark.parametrize("fn", some_of(list(UnaryFn), every=3))
def test_unary(fn: UnaryFn) -> None:
    low, high, bound = RANGES[fn]
    x = everywhere(low, high)
    out = apply(f"unary {fn.value}", x).astype(np.float64)
    expected = UNARY[fn].evaluate(x.astype(np.float64))
    # The table's formulas cancel for negative arguments; these do not.
    if fn is UnaryFn.GELU_TANH:
        u = 2 * np.sqrt(2 / np.pi) * (x.astype(np.float64) + 0.044715 * x.astype(np.float64) ** 3)
        expected = x / (1 + np.exp(-u))
    if fn is UnaryFn.GELU:
        expected = x * 0.5 * np.vectorize(math.erfc)(-x.astype(np.float64) / np.sqrt(2))
    if fn in (UnaryFn.SIGMOID, UnaryFn.SILU):
        factor = x.astype(np.float64) if fn is UnaryFn.SILU else 1.0
        expected = factor / (1 + np.exp(-x.astype(np.float64)))
    error = np.abs(out - expected) / np.maximum(np.abs(expected), 2.0**-126)
    assert error.max() <= bound * U, (error.max() / U, x.flat[error.argmax()])


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38], np.float32)


@pytest.mark.parametrize("fn", some_of(list(UnaryFn), every=3))
def test_unary_limits(fn: UnaryFn) -> None:
    x = np.resize(SPECIAL, SHAPE)
    out = apply(f"unary {fn.value}", x)[0, :8].astype(np.float64)
    with np.errstate(all="ignore"):
        expected = (
            UNARY[fn].evaluate(SPECIAL.astype(np.float64)).astype(np.float32).astype(np.float64)
        )
    if fn in (UnaryFn.SILU, UnaryFn.GELU, UnaryFn.GELU_TANH):
        out, expected = np.delete(out, 3), np.delete(expected, 3)  # -inf * 0
    if fn is UnaryFn.GELU_TANH:
        out, expected = np.delete(out, -1), np.delete(expected, -1)  # x^2 overflows: -0 or -inf * 0
    assert np.array_equal(np.isnan(out), np.isnan(expected)), (out, expected)
    if fn in (UnaryFn.SIN, UnaryFn.COS):  # the error is absolute
        assert np.allclose(out[-2:], expected[-2:], rtol=0, atol=6 * U)
        out, expected = out[:-2], expected[:-2]
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-38, equal_nan=True), (out, expected)


@pytest.mark.parametrize("fn", some_of(list(BinaryFn), every=3))
def test_binary(fn: BinaryFn) -> None:
    x, y = everywhere(-100, 100), everywhere(-100, 100)
    bound = {BinaryFn.POW: 8 + 2 * 30.0}.get(fn, 1.0)
    if fn is BinaryFn.POW:
        x, y = np.abs(x) + np.float32(1e-3), np.clip(y, -4, 4)
    if fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):  # of whole numbers
        x, y = (np.rint(v * 1e5).astype(np.float32) for v in (x, y))
        y = np.where(y == 0, np.float32(7), np.rint(y / 1e3) + np.float32(0.0))
        y = np.where(y == 0, np.float32(-3), y).astype(np.float32)
    if fn is BinaryFn.EQ:
        x = np.where(RNG.random(SHAPE) < 0.5, x, y)
    if BINARY[fn].logic or fn is BinaryFn.KEEP:
        x = (x > 0).astype(np.float32)
    if BINARY[fn].logic:
        y = (y > 0).astype(np.float32)
    out = apply(f"binary {fn.value}", x, y).astype(np.float64)
    expected = BINARY[fn].evaluate(x.astype(np.float64), y.astype(np.float64))
    assert np.all(np.abs(out - expected) <= bound * U * np.abs(expected) + 2.0**-126)


@pytest.mark.parametrize("fn", [UnaryFn.SIN, UnaryFn.COS])
def test_angles_of_all_sizes(fn: UnaryFn) -> None:
    x = everywhere(-(2.0**21), 2.0**21)
    x.flat[:64] = np.float32(np.pi / 2) * np.arange(64, dtype=np.float32)
    out = apply(f"unary {fn.value}", x).astype(np.float64)
    assert np.abs(out - UNARY[fn].evaluate(x.astype(np.float64))).max() <= 6 * U


@pytest.mark.parametrize("fn", [UnaryFn.SIN, UnaryFn.COS])
def test_angles_of_many_turns(fn: UnaryFn) -> None:
    """Numbers of every exponent from 2^20 on; NumPy reduces float64 exactly."""
    exponents = RNG.integers(20, 128, SHAPE)
    signs = RNG.choice([-1.0, 1.0], SHAPE)
    x = (signs * RNG.uniform(1, 2, SHAPE) * 2.0**exponents).astype(np.float32)
    x.flat[:8] = [2.0**22, -(2.0**22), 2.0**22 - 0.5, 2.0**86, 2.0**85, 2.0**87, 2.0**127, -3e38]
    out = apply(f"unary {fn.value}", x).astype(np.float64)
    assert np.abs(out - UNARY[fn].evaluate(x.astype(np.float64))).max() <= 6 * U


@pytest.mark.parametrize(
    "exponent", some_of([0.0, 1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, 1.5, 5.0], every=3)
)
def test_constant_exponents(exponent: float) -> None:
    x = everywhere(-50, 50)
    if exponent != int(exponent):
        x = np.abs(x)
    if exponent < 0:
        x = np.where(np.abs(x) < 1e-6, np.float32(1), x)
    out = apply("binary pow", x, constant=exponent).astype(np.float64)
    expected = x.astype(np.float64) ** exponent
    # 1e-38 covers results that become subnormal.
    assert np.all(np.abs(out - expected) <= 400 * U * np.abs(expected) + 1e-37)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "fn", some_of([UnaryFn.NEG, UnaryFn.RELU, UnaryFn.EXP, UnaryFn.SILU, UnaryFn.TANH], every=3)
)
def test_two_byte_types_round_once(fn: UnaryFn, dtype: type) -> None:
    x = everywhere(-8, 8).astype(dtype)
    out = apply(f"unary {fn.value}", x)
    expected = UNARY[fn].evaluate(x.astype(np.float64))
    nearest = expected.astype(dtype).astype(np.float64)
    spacing = np.abs(expected) * (2.0**-10 if dtype is np.float16 else 2.0**-7) + 2.0**-24
    assert np.all(np.abs(out.astype(np.float64) - nearest) <= spacing)
    assert np.mean(out.astype(np.float64) == nearest) > 0.97


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_casts(name: str) -> None:
    dtype, mlir = (np.float16, "f16") if name == "float16" else (ml_dtypes.bfloat16, "bf16")
    x = everywhere(-70000, 70000)
    narrow, wide = np.zeros(SHAPE, dtype), np.zeros(SHAPE, np.float32)
    place = "[%c0, %c0] dims [0, 1] in_bounds [true, true]"
    full, half = LAYOUT.fragment("f32"), LAYOUT.fragment(mlir)
    body = f"""
    %x = thread.load_global %a0{place} : {memref(x)} -> {full}
    %h = thread.cast %x : {full} -> {half}
    %w = thread.cast %h : {half} -> {full}
    thread.store_global %h, %a1{place} : {half}, {memref(narrow)}
    thread.store_global %w, %a2{place} : {full}, {memref(wide)}
"""
    Kernel(body).run(x, narrow, wide)
    with np.errstate(over="ignore"):
        assert np.array_equal(narrow, x.astype(dtype))
        assert np.array_equal(wide, x.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("divisor", [3.0, -7.0, 1000.0, 0.1, 1024.0, 4097.5, 1e-35, 2.0**-126])
def test_a_quotient_by_a_constant_is_rounded_once(divisor: float) -> None:
    x = everywhere(-1e20, 1e20)
    x[0, :8] = [0.0, -0.0, np.inf, -np.inf, 5.7 * divisor, -3.0 * divisor, 1.0, 2.0**-60]
    got = apply("binary div", x, constant=divisor)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, x / np.float32(divisor))


@pytest.mark.parametrize("count", [3, 7, 10, 1000, 4097])
def test_a_product_with_one_over_a_count_is_the_rounded_quotient(count: int) -> None:
    """So that the mean of equal numbers is that number."""
    x = everywhere(-1e30, 1e30)
    x[0, :8] = [0.0, -0.0, np.inf, -np.inf, count, -3.0 * count, 1.0, 2.0**-60]
    got = apply("binary mul", x, constant=1.0 / count)
    np.testing.assert_array_equal(got, x / np.float32(count))
    plain = x * np.float32(1.0 / count)
    # A product alone sometimes gives another number, unless 1/count is nearly an f32 number.
    assert count == 4097 or (plain[np.isfinite(x)] != got[np.isfinite(x)]).any()
