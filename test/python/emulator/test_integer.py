"""Integer arithmetic and bit operations against Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulator_support.harness import elementwise, stated
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import some_of

_REG = {2: "%h", 4: "%r", 8: "%d"}
_DTYPE = {
    "u16": np.uint16,
    "s16": np.int16,
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
}
_EDGES = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    64,
    -1,
    -2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0x7FFFFFFF,
    2**31,
    2**32 - 1,
    2**63,
    2**63 - 1,
]


def wrap(value: int, kind: str) -> int:
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def words(kind: str, count: int = 32) -> st.SearchStrategy[list[int]]:
    bits = int(kind[1:])
    one = st.one_of(st.sampled_from(_EDGES), st.integers(-(2 ** (bits - 1)), 2**bits - 1))
    return st.lists(one.map(lambda v: wrap(v, kind)), min_size=count, max_size=count)


def array(values: list[int], kind: str) -> np.ndarray[Any, Any]:
    return np.array(values, _DTYPE[kind])


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: (a * b) >> n,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: truncated(a, b),
    "rem": lambda a, b, n: a - truncated(a, b) * b,
}


@pytest.mark.parametrize("kind", some_of(list(_DTYPE)))
@pytest.mark.parametrize("name", list(BINARY))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_binary(name: str, kind: str, data: st.DataObject) -> None:
    a, b = data.draw(words(kind)), data.draw(words(kind))
    bits = int(kind[1:])
    reg = _REG[bits // 8]
    if name in ("div", "rem"):
        b = [y or 1 for y in b]
    out = elementwise(
        f"{name}.{kind} {reg}0, {reg}1, {reg}2;", [array(a, kind), array(b, kind)], _DTYPE[kind]
    )
    expected = [wrap(BINARY[name](x, y, bits), kind) for x, y in zip(a, b, strict=True)]
    assert out.tolist() == expected


@pytest.mark.parametrize("kind", list(_DTYPE))
def test_division_by_zero_gives_all_ones_and_the_dividend(kind: str) -> None:
    reg = _REG[int(kind[1:]) // 8]
    values, zeros = list(range(32)), [0] * 32
    with stated("PTX ISA: integer division by zero yields an unspecified, machine-specific value"):
        quotient, rest = (
            elementwise(
                f"{name}.{kind} {reg}0, {reg}1, {reg}2;",
                [array(values, kind), array(zeros, kind)],
                _DTYPE[kind],
            )
            for name in ("div", "rem")
        )
    assert quotient.tolist() == [wrap(-1, kind)] * 32
    assert rest.tolist() == values


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_wide_product_and_multiply_add(kind: str, data: st.DataObject) -> None:
    a, b = data.draw(words(kind)), data.draw(words(kind))
    wide = f"{kind[0]}{2 * int(kind[1:])}"
    c = data.draw(words(wide))
    small, big = _REG[int(kind[1:]) // 8], _REG[int(wide[1:]) // 8]
    arrays = [array(a, kind), array(b, kind), array(c, wide)]
    out = elementwise(f"mul.wide.{kind} {big}0, {small}1, {small}2;", arrays, _DTYPE[wide])
    assert out.tolist() == [x * y for x, y in zip(a, b, strict=True)]
    out = elementwise(f"mad.wide.{kind} {big}0, {small}1, {small}2, {big}3;", arrays, _DTYPE[wide])
    assert out.tolist() == [wrap(x * y + z, wide) for x, y, z in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_mad_lo_and_hi(kind: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(words(kind)) for _ in range(3))
    bits = int(kind[1:])
    reg = _REG[bits // 8]
    arrays = [array(v, kind) for v in (a, b, c)]
    for mode, shift in (("lo", 0), ("hi", bits)):
        out = elementwise(
            f"mad.{mode}.{kind} {reg}0, {reg}1, {reg}2, {reg}3;", arrays, _DTYPE[kind]
        )
        expected = [wrap((x * y >> shift) + z, kind) for x, y, z in zip(a, b, c, strict=True)]
        assert out.tolist() == expected


@settings(max_examples=8, deadline=None)
@given(a=words("s32"), b=words("s32"))
def test_saturating_add(a: list[int], b: list[int]) -> None:
    out = elementwise("add.sat.s32 %r0, %r1, %r2;", [array(a, "s32"), array(b, "s32")], np.int32)
    assert out.tolist() == [max(-(2**31), min(2**31 - 1, x + y)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("kind", some_of(["u16", "s16", "u32", "s32", "u64", "s64"], every=2))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_shifts_clamp(kind: str, data: st.DataObject) -> None:
    bits = int(kind[1:])
    reg = _REG[bits // 8]
    a = data.draw(words(kind))
    amount = data.draw(st.lists(st.integers(0, 2 * bits), min_size=32, max_size=32))
    arrays = [array(a, kind), np.array(amount, np.uint32)]
    out = elementwise(f"shr.{kind} {reg}0, {reg}1, %r2;", arrays, _DTYPE[kind])
    assert out.tolist() == [x >> min(n, 64) for x, n in zip(a, amount, strict=True)]
    out = elementwise(f"shl.b{bits} {reg}0, {reg}1, %r2;", arrays, _DTYPE[kind])
    assert out.tolist() == [
        wrap(x << n if n < bits else 0, kind) for x, n in zip(a, amount, strict=True)
    ]


@settings(max_examples=8, deadline=None)
@given(a=words("u32"), b=words("u32"), n=words("u32"))
def test_funnel_shift(a: list[int], b: list[int], n: list[int]) -> None:
    arrays = [array(v, "u32") for v in (a, b, n)]
    for side in "lr":
        for mode in ("wrap", "clamp"):
            out = elementwise(f"shf.{side}.{mode}.b32 %r0, %r1, %r2, %r3;", arrays, np.uint32)
            for x, y, k, got in zip(a, b, n, out.tolist(), strict=True):
                k = k & 31 if mode == "wrap" else min(k, 32)
                both = y << 32 | x
                expected = both << k >> 32 if side == "l" else both >> k
                assert got == expected & 0xFFFFFFFF


@settings(max_examples=8, deadline=None)
@given(a=words("u32"), b=words("u32"), s=words("u32"))
def test_prmt_of_four_in_a_row(a: list[int], b: list[int], s: list[int]) -> None:
    out = elementwise(
        "prmt.b32.f4e %r0, %r1, %r2, %r3;", [array(v, "u32") for v in (a, b, s)], np.uint32
    )
    for x, y, k, got in zip(a, b, s, out.tolist(), strict=True):
        assert got == (y << 32 | x) >> 8 * (k & 3) & 0xFFFFFFFF


@settings(max_examples=8, deadline=None)
@given(a=words("u32"), b=words("u32"), s=words("u32"))
def test_prmt(a: list[int], b: list[int], s: list[int]) -> None:
    out = elementwise(
        "prmt.b32 %r0, %r1, %r2, %r3;", [array(v, "u32") for v in (a, b, s)], np.uint32
    )
    for x, y, k, got in zip(a, b, s, out.tolist(), strict=True):
        source = x.to_bytes(4, "little") + y.to_bytes(4, "little")
        expected = 0
        for i in range(4):
            pick = k >> 4 * i & 15
            byte = source[pick & 7]
            byte = (0xFF if byte & 0x80 else 0) if pick & 8 else byte
            expected |= byte << 8 * i
        assert got == expected


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_bit_fields(kind: str, data: st.DataObject) -> None:
    bits = int(kind[1:])
    reg = _REG[bits // 8]
    a, b = data.draw(words(kind)), data.draw(words(kind))
    pos = data.draw(st.lists(st.integers(0, 70), min_size=32, max_size=32))
    size = data.draw(st.lists(st.integers(0, 70), min_size=32, max_size=32))
    arrays = [array(a, kind), np.array(pos, np.uint32), np.array(size, np.uint32)]
    out = elementwise(f"bfe.{kind} {reg}0, {reg}1, %r2, %r3;", arrays, _DTYPE[kind])
    for x, p, n, got in zip(a, pos, size, out.tolist(), strict=True):
        # The PTX manual's reference: bits beyond the width, and beyond the field, are the sign.
        raw = x & ((1 << bits) - 1)
        last = min(p + n - 1, bits - 1)
        sign = raw >> last & 1 if kind[0] == "s" and n else 0
        expected = 0
        for i in range(bits):
            bit = raw >> (p + i) & 1 if i < n and p + i < bits else sign
            expected |= bit << i
        assert got == wrap(expected, kind)
    arrays = [array(a, kind), array(b, kind), np.array(pos, np.uint32), np.array(size, np.uint32)]
    out = elementwise(f"bfi.b{bits} {reg}0, {reg}1, {reg}2, %r3, %r4;", arrays, _DTYPE[kind])
    for x, y, p, n, got in zip(a, b, pos, size, out.tolist(), strict=True):
        expected = y & ((1 << bits) - 1)
        for i in range(n):
            if p + i < bits:
                expected = expected & ~(1 << p + i) | (x >> i & 1) << (p + i)
        assert got == wrap(expected, kind)


@pytest.mark.parametrize("bits", [32, 64])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_counts(bits: int, data: st.DataObject) -> None:
    kind = f"u{bits}"
    reg = _REG[bits // 8]
    a = data.draw(words(kind))
    values = [array(a, kind)]
    clz = elementwise(f"clz.b{bits} %r0, {reg}1;", values, np.uint32)
    assert clz.tolist() == [bits - x.bit_length() for x in a]
    popc = elementwise(f"popc.b{bits} %r0, {reg}1;", values, np.uint32)
    assert popc.tolist() == [x.bit_count() for x in a]
    brev = elementwise(f"brev.b{bits} {reg}0, {reg}1;", values, _DTYPE[kind])
    assert brev.tolist() == [int(f"{x:0{bits}b}"[::-1], 2) for x in a]
    find = elementwise(f"bfind.u{bits} %r0, {reg}1;", values, np.uint32)
    assert find.tolist() == [x.bit_length() - 1 if x else 0xFFFFFFFF for x in a]
    signed = elementwise(f"bfind.s{bits} %r0, {reg}1;", values, np.uint32)
    for x, got in zip(a, signed.tolist(), strict=True):
        s = wrap(x, f"s{bits}")
        expected = (~s if s < 0 else s).bit_length() - 1
        assert got == expected & 0xFFFFFFFF


@settings(max_examples=10, deadline=None)
@given(a=words("u32"), b=words("u32"), c=words("u32"), table=st.integers(0, 255))
def test_lop3(a: list[int], b: list[int], c: list[int], table: int) -> None:
    arrays = [array(v, "u32") for v in (a, b, c)]
    out = elementwise(f"lop3.b32 %r0, %r1, %r2, %r3, {table:#x};", arrays, np.uint32)
    for x, y, z, got in zip(a, b, c, out.tolist(), strict=True):
        expected = sum(
            (table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1) & 1) << i
            for i in range(32)
        )
        assert got == expected


@settings(max_examples=10, deadline=None)
@given(a=words("s32"), b=words("s32"), c=words("s32"))
def test_logic_select_and_rest(a: list[int], b: list[int], c: list[int]) -> None:
    arrays = [array(v, "s32") for v in (a, b, c)]

    def check(body: str, function: Callable[[int, int, int], int]) -> None:
        out = elementwise(body, arrays, np.int32)
        assert out.tolist() == [wrap(function(*v), "s32") for v in zip(a, b, c, strict=True)]

    check("and.b32 %r0, %r1, %r2;", lambda x, y, z: x & y)
    check("or.b32 %r0, %r1, %r2;", lambda x, y, z: x | y)
    check("xor.b32 %r0, %r1, %r2;", lambda x, y, z: x ^ y)
    check("not.b32 %r0, %r1;", lambda x, y, z: ~x)
    check("cnot.b32 %r0, %r1;", lambda x, y, z: int(x == 0))
    check("neg.s32 %r0, %r1;", lambda x, y, z: -x)
    check("abs.s32 %r0, %r1;", lambda x, y, z: abs(x))
    check("sad.s32 %r0, %r1, %r2, %r3;", lambda x, y, z: abs(x - y) + z)
    check(
        "setp.gt.s32 %p1, %r1, %r2; selp.b32 %r0, %r3, 7, %p1;", lambda x, y, z: z if x > y else 7
    )
    check("slct.s32.s32 %r0, %r1, %r2, %r3;", lambda x, y, z: x if z >= 0 else y)
    check(
        "setp.lt.s32 %p1, %r1, 0; setp.ge.and.s32 %p2|%p3, %r2, %r3, %p1; "
        "selp.b32 %r0, 1, 0, %p2; @%p3 add.s32 %r0, %r0, 2;",
        lambda x, y, z: int(x < 0 and y >= z) + 2 * int(x < 0 and not y >= z),
    )
    check("set.le.u32.s32 %r0, %r1, %r2;", lambda x, y, z: -1 if x <= y else 0)
    check("min.s32 %r4, %r1, %r2; max.s32 %r0, %r4, %r3;", lambda x, y, z: max(min(x, y), z))


@settings(max_examples=10, deadline=None)
@given(a=words("u32"), b=words("u32"), c=words("u32"))
def test_dp4a_and_unsigned_compare(a: list[int], b: list[int], c: list[int]) -> None:
    arrays = [array(v, "u32") for v in (a, b, c)]
    out = elementwise("dp4a.u32.s32 %r0, %r1, %r2, %r3;", arrays, np.uint32)
    for x, y, z, got in zip(a, b, c, out.tolist(), strict=True):
        total = z
        for u, v in zip(x.to_bytes(4, "little"), y.to_bytes(4, "little"), strict=True):
            total += u * (v - 256 if v > 127 else v)
        assert got == total & 0xFFFFFFFF
    for name, function in {
        "lo": int.__lt__,
        "ls": int.__le__,
        "hi": int.__gt__,
        "hs": int.__ge__,
    }.items():
        body = f"setp.{name}.u32 %p1, %r1, %r2; selp.b32 %r0, 1, 0, %p1;"
        out = elementwise(body, arrays, np.uint32)
        assert out.tolist() == [int(function(x, y)) for x, y in zip(a, b, strict=True)]


@settings(max_examples=10, deadline=None)
@given(a=words("u32"), p=words("u32"), n=words("u32"))
def test_mask_and_extension(a: list[int], p: list[int], n: list[int]) -> None:
    arrays = [array(v, "u32") for v in (a, p, n)]
    out = elementwise("bmsk.clamp.b32 %r0, %r2, %r3;", arrays, np.uint32)
    for position, size, got in zip(p, n, out.tolist(), strict=True):
        assert got == ((1 << min(size, 32)) - 1) << min(position, 32) & 0xFFFFFFFF
    out = elementwise("szext.wrap.s32 %r0, %r1, %r2;", arrays, np.uint32)
    for x, position, got in zip(a, p, out.tolist(), strict=True):
        k = position & 31
        low = x & ((1 << k) - 1)
        expected = low - (1 << k) if k and low >> (k - 1) & 1 else low
        assert got == expected & 0xFFFFFFFF
