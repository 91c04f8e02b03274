"""cvt."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import (
    dtype_of,
)
from mirage.emulator.ops import numerics
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, simple
from mirage.emulator.ptx.syntax import TYPE_BYTES, Instruction

INTEGERS = tuple(f"{k}{b}" for k in "us" for b in (8, 16, 32, 64))
FLOATS = ("f16", "bf16", "f32", "f64")
_INTEGRAL: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FP8: dict[str, Any] = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}


@opcode("cvt")
def compile_cvt(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """All scalar conversions; f16x2, bf16x2, fp8 pairs and tf32 from f32."""
    source = modifiers.type(*INTEGERS, *FLOATS, "f16x2", *_FP8)
    target = modifiers.type(*INTEGERS, *FLOATS, "f16x2", "bf16x2", "tf32", *_FP8)
    ftz = modifiers.take("ftz") is not None
    sat = modifiers.take("sat") is not None
    finite = modifiers.take("satfinite") is not None
    relu = modifiers.take("relu") is not None
    rounding = modifiers.take("rn", "rz", "rm", "rp", "rna", *_INTEGRAL)
    if target in ("f16x2", "bf16x2") and source == "f32":
        return _pack(instruction, target, rounding or "rn", relu=relu, finite=finite)
    if target in _FP8 or source in _FP8:
        return _fp8(instruction, modifiers, source, target, relu=relu)
    if target == "tf32":
        return _tf32(instruction, modifiers, rounding, relu=relu)
    if "f16x2" in (source, target):
        raise modifiers.unknown()
    from_float, to_float = source in FLOATS, target in FLOATS
    if from_float and to_float:
        return _float_to_float(instruction, source, target, rounding, ftz=ftz, sat=sat, relu=relu)
    if from_float:
        if rounding not in _INTEGRAL:
            raise modifiers.unknown()
        whole = _INTEGRAL[rounding]

        def to_integer(a: Array) -> Array:
            a = numerics.flush(a) if ftz and a.dtype == np.float32 else a
            return _clamp(whole(a.astype(np.float64)), target, source)

        return simple(instruction, "convert", target, (source,), to_integer)
    if to_float:
        mode = rounding or "rn"
        if target == "f64" and mode != "rn" and TYPE_BYTES[source] == 8:
            raise modifiers.unknown()

        def from_integer(a: Array) -> Array:
            if mode == "rn" and target != "bf16":
                value = a.astype(dtype_of(target))
            elif target == "f64":
                value = a.astype(np.float64)
            else:
                value = numerics.round_to(_odd(a), target, mode)
            return numerics.saturate(value) if sat else value

        return simple(instruction, "convert", target, (source,), from_integer)
    dtype = dtype_of(target)
    if sat:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

        def clip(a: Array) -> Array:
            info = np.iinfo(a.dtype)
            return np.clip(a, max(low, info.min), min(high, info.max)).astype(dtype)

        return simple(instruction, "convert", target, (source,), clip)
    return simple(instruction, "convert", target, (source,), lambda a: a.astype(dtype))


def _odd(a: Array) -> Array:
    """Integers as float64 rounded to odd."""
    high = (a >> a.dtype.type(min(32, 8 * a.dtype.itemsize - 1))).astype(np.float64)
    shift = float(2 ** min(32, 8 * a.dtype.itemsize - 1))
    low = (a & a.dtype.type(2 ** min(32, 8 * a.dtype.itemsize - 1) - 1)).astype(np.float64)
    return numerics.odd_sum(high * shift, low)


def _clamp(value: Array, target: str, source: str) -> Array:
    """Integral float64 values as integers: saturated; NaN is 0, or the top bit for 64 bits."""
    dtype = dtype_of(target)
    info = np.iinfo(dtype)
    size = TYPE_BYTES[target]
    nan = np.isnan(value)
    if size < 8:
        result = np.clip(np.where(nan, 0, value), info.min, info.max).astype(dtype)
    else:
        high = value >= float(info.max)
        low = value <= float(info.min)
        safe = np.where(high | low | nan, 0, value)
        result = np.where(high, info.max, np.where(low, info.min, safe.astype(dtype))).astype(dtype)
    if size == 8 or source == "f64":
        top = np.array(1 << (8 * size - 1), np.uint64).astype(f"u{size}").view(dtype)
        result = np.where(nan, top, result)
    return result


def _float_to_float(
    instruction: Instruction,
    source: str,
    target: str,
    rounding: str | None,
    *,
    ftz: bool,
    sat: bool,
    relu: bool,
) -> Compiled:
    dtype = dtype_of(target)

    def compute(a: Array) -> Array:
        if ftz and source == "f32":
            a = numerics.flush(a)
        if rounding in _INTEGRAL:
            value = _INTEGRAL[rounding](a).astype(dtype)
        elif target == "bf16" or (rounding not in (None, "rn")):
            value = numerics.round_to(a.astype(np.float64), target, rounding or "rn")
        else:
            value = a.astype(dtype)
        if ftz and target == "f32":
            value = numerics.flush(value)
        if sat:
            value = numerics.saturate(value)
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0)).astype(
                value.dtype
            )
        if target == "f16":
            value = _canonical_f16(value)
        elif target == "f32":
            value = numerics.canonical_nan(value)
        return value

    return simple(instruction, "convert", target, (source,), compute)


def _canonical_f16(value: Array) -> Array:
    nan = np.isnan(value)
    if not any_of(nan):
        return value
    return np.where(nan, np.uint16(0x7FFF), value.view(np.uint16)).view(np.float16)


def _pack(
    instruction: Instruction, target: str, rounding: str, *, relu: bool, finite: bool
) -> Compiled:
    """cvt.rn.f16x2.f32 d, a, b: a becomes the upper half."""
    base = target.removesuffix("x2")
    largest = 65504.0 if base == "f16" else float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)

    def half(a: Array) -> Array:
        if base == "f16" and rounding == "rn":
            value = a.astype(np.float16)
        else:
            value = numerics.round_to(a.astype(np.float64), base, rounding)
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0)).astype(
                value.dtype
            )
        if finite:
            value = np.where(np.isnan(value), value, np.clip(value, -largest, largest)).astype(
                value.dtype
            )
        if base == "f16":
            return _canonical_f16(value).view(np.uint16).astype(np.uint32)
        raw = value.view(np.uint32) >> np.uint32(16)
        return np.where(np.isnan(value), np.uint32(0x7FFF), raw)

    def compute(a: Array, b: Array) -> Array:
        return (half(a) << np.uint32(16)) | half(b)

    return simple(instruction, "convert", "b32", ("f32", "f32"), compute)


def _fp8(
    instruction: Instruction, modifiers: Modifiers, source: str, target: str, *, relu: bool
) -> Compiled:
    if target in _FP8 and source == "f32":
        dtype, largest = _FP8[target], float(ml_dtypes.finfo(_FP8[target]).max)

        def byte(a: Array) -> Array:
            a = np.where(np.isnan(a), a, np.clip(a, 0.0 if relu else -largest, largest))
            raw = a.astype(np.float32).astype(dtype).view(np.uint8)
            return np.where(np.isnan(a), np.uint8(0x7F), raw).astype(np.uint16)

        return simple(
            instruction,
            "convert",
            "b16",
            ("f32", "f32"),
            lambda a, b: (byte(a) << np.uint16(8)) | byte(b),
        )
    if source in _FP8 and target == "f16x2":
        dtype = _FP8[source]

        def widen(a: Array) -> Array:
            raw = np.ascontiguousarray(a).view(np.uint8)
            return raw.view(dtype).astype(np.float16)

        return simple(instruction, "convert", "f16x2", ("b16",), widen)
    raise modifiers.unknown()


def _tf32(
    instruction: Instruction, modifiers: Modifiers, rounding: str | None, *, relu: bool
) -> Compiled:
    """10 mantissa bits, nearest with ties away (rna) or to even (rn)."""
    if rounding not in ("rna", "rn") or relu:
        raise modifiers.unknown()

    return simple(
        instruction, "convert", "b32", ("f32",), lambda a: tf32_bits(a, to_even=rounding == "rn")
    )


def tf32_bits(a: Array, *, to_even: bool = False) -> Array:
    """The bits of f32 numbers rounded to 10 mantissa bits, ties away from zero or to even."""
    raw = a.view(np.uint32)
    half = np.uint32(0x1000)
    if to_even:
        half = np.uint32(0xFFF) + ((raw >> np.uint32(13)) & np.uint32(1))
    value = (raw + half) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(a), value, np.where(np.isnan(a), np.uint32(0x7FFFFFFF), raw))
