"""cvt and mov against exact references."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support.harness import elementwise, emulator, kernel
from emulator_support.ieee import patterns, round_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.emulator import UnknownInstructionError
from thorough import some_of

Array = np.ndarray[Any, Any]
_NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
_INT: dict[str, Any] = {
    f"{k}{b}": np.dtype(f"{'i' if k == 's' else 'u'}{b // 8}") for k in "us" for b in (16, 32, 64)
}


def convert(modifiers: str, target: str, source: str, values: Array) -> Array:
    """cvt.modifiers.target.source of each value; floats travel in typed registers."""

    def register(kind: str, index: int) -> tuple[str, str, str]:
        bits = int(kind.lstrip("bfus"))
        if kind in ("f32", "f64"):
            file, plain = ("%f", "%r") if bits == 32 else ("%g", "%d")
            return f"{file}{index}", f"{plain}{index}", f"mov.b{bits}"
        return {16: "%h", 32: "%r", 64: "%d"}[bits] + str(index), "", ""

    src, src_plain, src_move = register(source, 1)
    dst, dst_plain, dst_move = register(target, 0)
    body = f"{src_move} {src}, {src_plain};\n" if src_move else ""
    body += f"cvt{modifiers}.{target}.{source} {dst}, {src};\n"
    body += f"{dst_move} {dst_plain}, {dst};" if dst_move else ""
    dtype: Any = _NUMPY.get(target, _INT.get(target))
    unsigned: Any = f"u{np.dtype(dtype).itemsize}"
    raw = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    return elementwise(body, [raw], unsigned).view(dtype)


@pytest.mark.parametrize(
    ("source", "target"),
    some_of(
        [
            ("f32", "f16"),
            ("f32", "bf16"),
            ("f64", "f32"),
            ("f64", "f16"),
            ("f16", "f32"),
            ("bf16", "f32"),
            ("f32", "f64"),
        ],
        every=3,
    ),
)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_float_to_float(source: str, target: str, mode: str, data: st.DataObject) -> None:
    if target == "bf16" and mode in ("rm", "rp"):
        return
    widening = (source, target) in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"))
    values = data.draw(patterns(source))
    got = convert("" if widening else f".{mode}", target, source, values).astype(float)
    for x, g in zip(values.astype(float).tolist(), got.tolist(), strict=True):
        if math.isnan(x):
            assert math.isnan(g)
        elif math.isinf(x):
            assert g == x
        else:
            expected = round_exact(
                Fraction(x),
                target,
                "rn" if widening else mode,
                negative_zero=math.copysign(1, x) < 0,
            )
            assert (g, math.copysign(1, g)) == (expected, math.copysign(1, expected)), (
                x,
                g,
                expected,
            )


@pytest.mark.parametrize("target", some_of(["u16", "s16", "u32", "s32", "u64", "s64"], every=3))
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_float_to_integer_saturates(source: str, target: str, data: st.DataObject) -> None:
    values = data.draw(patterns(source))
    info = np.iinfo(_INT[target])
    for mode, function in {
        "rni": round,
        "rzi": math.trunc,
        "rmi": math.floor,
        "rpi": math.ceil,
    }.items():
        got = convert(f".{mode}", target, source, values)
        for x, g in zip(values.astype(float).tolist(), got.tolist(), strict=True):
            if math.isnan(x):
                wide = source == "f64" or target.endswith("64")
                assert g == (
                    int(
                        np.array(1 << (info.bits - 1), np.uint64)
                        .astype(f"u{info.bits // 8}")
                        .view(_INT[target])
                    )
                    if wide
                    else 0
                )
            else:
                expected = (
                    info.max
                    if x == math.inf
                    else info.min
                    if x == -math.inf
                    else max(info.min, min(info.max, function(x)))
                )
                assert g == expected, (x, g, expected)


@pytest.mark.parametrize("source", some_of(["u16", "s16", "u32", "s32", "u64", "s64"], every=3))
@pytest.mark.parametrize("target", ["f16", "f32", "f64"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_integer_to_float(source: str, target: str, data: st.DataObject) -> None:
    info = np.iinfo(_INT[source])
    values = data.draw(
        st.lists(st.integers(int(info.min), int(info.max)), min_size=32, max_size=32)
    )
    for mode in ("rn", "rz", "rp") if target == "f32" else ("rn",):
        got = convert(f".{mode}", target, source, np.array(values, _INT[source]))
        expected = [round_exact(Fraction(v), target, mode) for v in values]
        assert got.astype(float).tolist() == expected


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("s64", "s32"),
        ("u64", "u32"),
        ("u32", "u64"),
        ("s32", "s16"),
        ("u16", "u32"),
        ("s16", "s64"),
        ("u32", "s16"),
    ],
)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_integer_to_integer(target: str, source: str, data: st.DataObject) -> None:
    info, out = np.iinfo(_INT[source]), np.iinfo(_INT[target])
    values = data.draw(
        st.lists(st.integers(int(info.min), int(info.max)), min_size=32, max_size=32)
    )
    got = convert("", target, source, np.array(values, _INT[source]))
    assert got.tolist() == [
        int(np.array(v, object) & ((1 << out.bits) - 1))
        - ((1 << out.bits) if out.min and v >> (out.bits - 1) & 1 else 0)
        for v in values
    ]
    if info.min >= out.min and info.max <= out.max:
        return
    saturated = convert(".sat", target, source, np.array(values, _INT[source]))
    assert saturated.tolist() == [max(out.min, min(out.max, v)) for v in values]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_pack_two_floats(kind: str, data: st.DataObject) -> None:
    a, b = data.draw(patterns("f32")), data.draw(patterns("f32"))
    for suffix in ("", ".relu"):
        body = f"mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rn{suffix}.{kind}x2.f32 %r0, %f1, %f2;"
        got = (
            elementwise(body, [a.view(np.uint32), b.view(np.uint32)], np.uint32)
            .view(_NUMPY[kind])
            .astype(float)
        )
        for high, values in ((1, a), (0, b)):
            expected = convert(".rn", kind, "f32", values).astype(float)
            if suffix:
                expected = np.where(
                    expected > 0, expected, np.where(np.isnan(expected), expected, 0)
                )
            np.testing.assert_array_equal(got[high::2], expected)


def test_round_to_integral_float_tf32_and_fp8() -> None:
    x = np.linspace(-3, 3, 32).astype(np.float32)
    np.testing.assert_array_equal(convert(".rni", "f32", "f32", x), np.rint(x))
    np.testing.assert_array_equal(convert(".rmi", "f32", "f32", x), np.floor(x))
    np.testing.assert_array_equal(convert(".sat", "f32", "f32", x), np.clip(x, 0, 1))
    tf32 = elementwise(
        "mov.b32 %f1, %r1; cvt.rna.tf32.f32 %r0, %f1;", [x.view(np.uint32)], np.uint32
    )
    assert not (tf32 & 0x1FFF).any()
    assert np.abs(tf32.view(np.float32) - x).max() <= 2.0**-10
    body = (
        "mov.b32 %f1, %r1; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f1; cvt.rn.f16x2.e4m3x2 %r0, %h1;"
    )
    both = elementwise(body, [(x * 300).view(np.uint32)], np.uint32).view(np.float16)
    expected = np.clip(x * 300, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float16)
    np.testing.assert_array_equal(both[0::2], expected)
    np.testing.assert_array_equal(both[1::2], expected)


def test_vector_moves_pack_and_unpack() -> None:
    x = np.arange(32, dtype=np.uint32) * 0x01010101
    out = elementwise("mov.b32 {%h1, %h2}, %r1; mov.b32 %r0, {%h2, %h1};", [x], np.uint32)
    assert out.tolist() == [(v >> 16 | v << 16) & 0xFFFFFFFF for v in x.tolist()]
    out = elementwise(
        "mov.b64 %d1, {%r1, %t}; mov.b64 {%r2, %r3}, %d1; sub.u32 %r0, %r2, %r3;", [x], np.uint32
    )
    assert out.tolist() == [v - i for i, v in enumerate(x.tolist())]


def test_unknown_conversion_quotes_the_line() -> None:
    text = kernel("cvt.rn.f32.e5m3x2 %r0, %h1;")
    with pytest.raises(
        UnknownInstructionError, match=r"ptx line \d+: `cvt.rn.f32.e5m3x2 %r0, %h1;`"
    ):
        emulator(text).program("test")
