# ruff: noqa: E501 - PTX keeps its lines
"""Floating-point instructions: bitwise where PTX defines the result, within its error elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support.harness import elementwise, stated
from emulator_support.ieee import NUMPY as _NUMPY
from emulator_support.ieee import patterns, round_exact
from emulator_support.tolerance import MAX_ERROR, approximation
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import some_of

Array = np.ndarray[Any, Any]

_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_REG = {16: "%h", 32: "%r", 64: "%d"}
# A register for floats of each width; the harness loads and stores untyped ones.
_MOVES = {32: ("%f", "b32", "%r"), 64: ("%g", "b64", "%d")}


def run(kind: str, operation: str, inputs: list[Array]) -> Array:
    """`operation` with {d}, {a}, {b}, {c} as typed registers."""
    bits = _BITS[kind]
    unsigned: Any = f"u{bits // 8}"
    raw = [np.ascontiguousarray(i).view(unsigned) for i in inputs]
    if bits == 16:
        names = {n: f"%h{i}" for i, n in enumerate("dabc")}
        return elementwise(operation.format(**names), raw, unsigned).view(_NUMPY[kind])
    file, move, plain = _MOVES[bits]
    names = {n: f"{file}{i}" for i, n in enumerate("dabc")}
    before = "".join(f"mov.{move} {file}{i + 1}, {plain}{i + 1};\n" for i in range(len(inputs)))
    body = f"{before}{operation.format(**names)}\nmov.{move} {plain}0, {file}0;"
    return elementwise(body, raw, unsigned).view(_NUMPY[kind])


def same(kind: str, got: Array, expected: list[float]) -> None:
    """Equal as numbers, with equal signs of zero; any NaN matches NaN."""
    for i, (g, e) in enumerate(zip(got.astype(np.float64).tolist(), expected, strict=True)):
        if math.isnan(e):
            assert math.isnan(g), (i, g, e)
        else:
            assert g == e, (i, g, e)
            assert math.copysign(1, g) == math.copysign(1, e), (i, g, e)


def exact(
    kind: str,
    mode: str,
    values: tuple[float, ...],
    combine: Callable[..., Fraction],
    special: float,
    *,
    zero: float,
) -> float:
    """Return the correctly rounded result, or that of IEEE arithmetic in float64 for non-finite
    values."""
    if not all(math.isfinite(v) for v in values):
        return special
    fraction = combine(*(Fraction(v) for v in values))
    if fraction == 0:
        return zero
    return round_exact(fraction, kind, mode)


@pytest.mark.parametrize(
    ("kind", "modes"),
    [
        ("f32", ("rn", "rz", "rm", "rp")),
        ("f64", ("rn", "rz", "rm", "rp")),
        ("f16", ("rn",)),
        ("bf16", ("rn",)),
    ],
)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_add_and_mul(kind: str, modes: tuple[str, ...], data: st.DataObject) -> None:
    a, b = data.draw(patterns(kind)), data.draw(patterns(kind))
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        plain_add, plain_mul = (x + y).tolist(), (x * y).tolist()
    for mode in modes:
        suffix = f".{mode}" if kind[0] == "f" and kind != "f16" else ""
        add = [
            exact(kind, mode, (p, q), lambda u, v: u + v, s,
                  zero=s if p == 0 and q == 0 and not (mode == "rm" and p + q == 0 and math.copysign(1, p) != math.copysign(1, q)) else (-0.0 if mode == "rm" else 0.0))
            for p, q, s in zip(x.tolist(), y.tolist(), plain_add, strict=True)
        ]  # fmt: skip
        same(kind, run(kind, f"add{suffix}.{kind} {{d}}, {{a}}, {{b}};", [a, b]), add)
        mul = [
            exact(kind, mode, (p, q), lambda u, v: u * v, s, zero=s)
            for p, q, s in zip(x.tolist(), y.tolist(), plain_mul, strict=True)
        ]
        same(kind, run(kind, f"mul{suffix}.{kind} {{d}}, {{a}}, {{b}};", [a, b]), mul)


@pytest.mark.parametrize(
    ("kind", "mode"),
    some_of(
        [
            ("f32", "rn"),
            ("f32", "rz"),
            ("f32", "rm"),
            ("f32", "rp"),
            ("f64", "rn"),
            ("f64", "rp"),
            ("f16", "rn"),
            ("bf16", "rn"),
        ],
        every=3,
    ),
)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_fma(kind: str, mode: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(patterns(kind)) for _ in range(3))
    got = run(kind, f"fma.{mode}.{kind} {{d}}, {{a}}, {{b}}, {{c}};", [a, b, c])
    for i, (x, y, z, g) in enumerate(
        zip(a.astype(float), b.astype(float), c.astype(float), got.astype(float), strict=True)
    ):
        x, y, z, g = float(x), float(y), float(z), float(g)
        if all(math.isfinite(v) for v in (x, y, z)):
            fraction = Fraction(x) * Fraction(y) + Fraction(z)
            if fraction == 0:
                assert g == 0
                continue
            expected = round_exact(fraction, kind, mode)
            assert g == expected, (i, x, y, z, g, expected)
        else:
            with np.errstate(all="ignore"):
                plain = float(np.float64(x) * np.float64(y) + np.float64(z))
            if math.isinf(z) and not math.isinf(x) and not math.isinf(y) and not math.isnan(x + y):
                plain = z
            assert g == plain or (math.isnan(g) and math.isnan(plain)), (i, x, y, z, g, plain)


@settings(max_examples=10, deadline=None)
@given(a=patterns("f32"), b=patterns("f32"), c=patterns("f32"))
def test_ftz_flushes_operands_and_results(a: Array, b: Array, c: Array) -> None:
    def flush(v: Array) -> Array:
        return np.where(
            (np.abs(v) < 2.0**-126) & (v != 0), np.copysign(np.float32(0), v), v
        ).astype(np.float32)

    with np.errstate(all="ignore"):
        expected = flush(flush(a) + flush(b))
        product = flush(flush(a) * flush(b))
    same("f32", run("f32", "add.ftz.f32 {d}, {a}, {b};", [a, b]), expected.astype(float).tolist())
    same("f32", run("f32", "mul.ftz.f32 {d}, {a}, {b};", [a, b]), product.astype(float).tolist())
    got = run("f32", "fma.rn.ftz.f32 {d}, {a}, {b}, {c};", [a, b, c])
    assert not ((np.abs(got) < 2.0**-126) & (got != 0)).any()


@settings(max_examples=10, deadline=None)
@given(a=patterns("f32"), b=patterns("f32"))
def test_division_and_roots(a: Array, b: Array) -> None:
    with np.errstate(all="ignore"):
        same("f32", run("f32", "div.rn.f32 {d}, {a}, {b};", [a, b]), (a / b).astype(float).tolist())
        same(
            "f32",
            run("f32", "rcp.rn.f32 {d}, {a};", [a]),
            (np.float32(1) / a).astype(float).tolist(),
        )
        same("f32", run("f32", "sqrt.rn.f32 {d}, {a};", [a]), np.sqrt(a).astype(float).tolist())


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_min_max_neg_abs(kind: str, data: st.DataObject) -> None:
    a, b = data.draw(patterns(kind)), data.draw(patterns(kind))

    def choose(x: float, y: float, largest: bool, nan: bool) -> float:
        if math.isnan(x) or math.isnan(y):
            return (
                math.nan
                if nan or (math.isnan(x) and math.isnan(y))
                else (y if math.isnan(x) else x)
            )
        if x == y == 0:
            negative = [math.copysign(1, v) < 0 for v in (x, y)]
            return -0.0 if (all(negative) if largest else any(negative)) else 0.0
        return max(x, y) if largest else min(x, y)

    for name in ("min", "max"):
        for suffix in ("", ".NaN") if kind != "f64" else ("",):
            got = run(kind, f"{name}{suffix}.{kind} {{d}}, {{a}}, {{b}};", [a, b])
            pairs = zip(a.astype(float).tolist(), b.astype(float).tolist(), strict=True)
            same(kind, got, [choose(x, y, name == "max", bool(suffix)) for x, y in pairs])
    same(kind, run(kind, f"neg.{kind} {{d}}, {{a}};", [a]), (-a.astype(float)).tolist())
    same(kind, run(kind, f"abs.{kind} {{d}}, {{a}};", [a]), np.abs(a.astype(float)).tolist())


_APPROXIMATIONS: dict[str, tuple[Callable[[Array], Array], tuple[float, float]]] = {
    "ex2.approx.f32": (np.exp2, (-120.0, 120.0)),
    "ex2.approx.ftz.f32": (np.exp2, (-120.0, 120.0)),
    "lg2.approx.f32": (np.log2, (1e-30, 1e30)),
    "rcp.approx.f32": (lambda x: 1 / x, (1e-30, 1e30)),
    "rcp.approx.ftz.f32": (lambda x: 1 / x, (1e-30, 1e30)),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), (1e-30, 1e30)),
    "sqrt.approx.f32": (np.sqrt, (0.0, 1e30)),
    "sin.approx.f32": (np.sin, (-math.pi, math.pi)),
    "cos.approx.f32": (np.cos, (-math.pi, math.pi)),
    "tanh.approx.f32": (np.tanh, (-20.0, 20.0)),
}


@pytest.mark.parametrize("name", list(_APPROXIMATIONS))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_approximations(name: str, data: st.DataObject) -> None:
    function, (low, high) = _APPROXIMATIONS[name]
    absolute, relative = MAX_ERROR[name]
    floats = st.floats(low, high, width=64)
    x = np.array(data.draw(st.lists(floats, min_size=32, max_size=32)), np.float32)
    if low > 0:
        x = np.maximum(x, np.float32(low))
    with stated(approximation(name)):
        got = run("f32", f"{name} {{d}}, {{a}};", [x]).astype(float)
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64))
    normal = np.abs(expected) >= 2.0**-126
    error = np.abs(got - expected)
    assert (error[normal] <= absolute + relative * np.abs(expected[normal]) + 1e-45).all()


def test_special_values_of_approximations() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1.0, 1.0] * 4, np.float32)

    def of(name: str) -> list[float]:
        return run("f32", f"{name} {{d}}, {{a}};", [x])[:8].astype(float).tolist()

    same(
        "f32",
        np.array(of("ex2.approx.ftz.f32"), np.float32),
        [1, 1, math.inf, 0.0, math.nan, 1, 0.5, 2],
    )
    same(
        "f32",
        np.array(of("lg2.approx.ftz.f32"), np.float32),
        [-math.inf, -math.inf, math.inf, math.nan, math.nan, -math.inf, math.nan, 0.0],
    )
    same(
        "f32",
        np.array(of("rcp.approx.ftz.f32"), np.float32),
        [math.inf, -math.inf, 0.0, -0.0, math.nan, math.inf, -1, 1],
    )
    same(
        "f32",
        np.array(of("rsqrt.approx.ftz.f32"), np.float32),
        [math.inf, -math.inf, 0.0, math.nan, math.nan, math.inf, math.nan, 1],
    )


@pytest.mark.parametrize(
    "name", ["ex2.approx.f16", "tanh.approx.f16", "tanh.approx.bf16", "ex2.approx.ftz.bf16"]
)
def test_half_precision_approximations(name: str) -> None:
    kind = name.rsplit(".", 1)[1]
    x = np.linspace(-8, 8, 32).astype(_NUMPY[kind])
    with stated(approximation(name)):
        got = run(kind, f"{name} {{d}}, {{a}};", [x]).astype(float)
    function = np.exp2 if name.startswith("ex2") else np.tanh
    expected = function(x.astype(float))
    absolute, relative = MAX_ERROR[name]
    assert (np.abs(got - expected) <= absolute + relative * np.abs(expected)).all()


@settings(max_examples=10, deadline=None)
@given(a=patterns("f16", 64), b=patterns("f16", 64), c=patterns("f16", 64))
def test_packed_halves_are_two_scalars(a: Array, b: Array, c: Array) -> None:
    words = [v.view(np.uint32) for v in (a, b, c)]
    for packed, scalar in [("add.f16x2 %r0, %r1, %r2;", "add.f16 {d}, {a}, {b};"),
                           ("mul.f16x2 %r0, %r1, %r2;", "mul.f16 {d}, {a}, {b};"),
                           ("fma.rn.f16x2 %r0, %r1, %r2, %r3;", "fma.rn.f16 {d}, {a}, {b}, {c};"),
                           ("max.f16x2 %r0, %r1, %r2;", "max.f16 {d}, {a}, {b};")]:  # fmt: skip
        inputs = words if "%r3" in packed else words[:2]
        got = elementwise(packed, inputs, np.uint32).view(np.float16)
        halves = [a, b, c] if "%r3" in packed else [a, b]
        low = run("f16", scalar, [v[0::2] for v in halves])
        high = run("f16", scalar, [v[1::2] for v in halves])
        same("f16", got[0::2], low.astype(float).tolist())
        same("f16", got[1::2], high.astype(float).tolist())


@settings(max_examples=10, deadline=None)
@given(a=patterns("bf16", 64), b=patterns("bf16", 64), c=patterns("bf16", 64))
def test_packed_bfloats_are_two_scalars(a: Array, b: Array, c: Array) -> None:
    words = [v.view(np.uint32) for v in (a, b, c)]
    got = elementwise("fma.rn.bf16x2 %r0, %r1, %r2, %r3;", words, np.uint32).view(
        ml_dtypes.bfloat16
    )
    low = run("bf16", "fma.rn.bf16 {d}, {a}, {b}, {c};", [v[0::2] for v in (a, b, c)])
    same("bf16", got[0::2], low.astype(float).tolist())


@settings(max_examples=10, deadline=None)
@given(a=patterns("f32"), b=patterns("f32"))
def test_comparisons(a: Array, b: Array) -> None:
    with np.errstate(all="ignore"):
        nan = np.isnan(a) | np.isnan(b)
        table = {"eq": a == b, "ne": (a != b) & ~nan, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
                 "equ": (a == b) | nan, "neu": a != b, "ltu": (a < b) | nan, "geu": (a >= b) | nan, "num": ~nan, "nan": nan}  # fmt: skip
    for name, expected in table.items():
        body = f"mov.b32 %f1, %r1; mov.b32 %f2, %r2; setp.{name}.f32 %p1, %f1, %f2; selp.b32 %r0, 1, 0, %p1;"
        got = elementwise(body, [a.view(np.uint32), b.view(np.uint32)], np.uint32)
        assert got.tolist() == expected.astype(int).tolist(), name


def test_saturation_copysign_and_classes() -> None:
    x = np.array([-1.0, -0.0, 0.25, 2.0, np.nan, np.inf, 1e-40, -np.inf] * 4, np.float32)
    same(
        "f32",
        run("f32", "add.sat.f32 {d}, {a}, {a};", [x])[:8],
        [0, 0, 0.5, 1, 0, 1, float(np.float32(1e-40) * 2), 0],
    )
    y = np.full(32, 3.0, np.float32)
    assert run("f32", "copysign.f32 {d}, {a}, {b};", [x, y])[:4].tolist() == [-3, -3, 3, 3]
    for name, expected in {
        "finite": [1, 1, 1, 1, 0, 0, 1, 0],
        "infinite": [0, 0, 0, 0, 0, 1, 0, 1],
        "notanumber": [0, 0, 0, 0, 1, 0, 0, 0],
        "subnormal": [0, 0, 0, 0, 0, 0, 1, 0],
        "normal": [1, 1, 1, 1, 0, 0, 0, 0],  # PTX counts zeros as normal
    }.items():
        got = elementwise(
            f"mov.b32 %f1, %r1; testp.{name}.f32 %p1, %f1; selp.b32 %r0, 1, 0, %p1;",
            [x.view(np.uint32)],
            np.uint32,
        )
        assert got[:8].tolist() == expected, name
