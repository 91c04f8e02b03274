"""Integer arithmetic. Opcodes shared with floating point dispatch on the type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.operands import SIGNED, UNSIGNED, reader, writer
from mirage.emulator.ops.floating import compile_float, is_float
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands, simple
from mirage.emulator.ptx.syntax import TYPE_BYTES, Instruction

INTEGERS = tuple(f"{k}{b}" for k in "us" for b in (8, 16, 32, 64))
Binary = Callable[[Array, Array], Array]


def _type_of(modifiers: Modifiers) -> str:
    return modifiers.rest[-1] if modifiers.rest else ""


def _saturated(kind: str, operation: Binary) -> Binary:
    """s32 only: clamps instead of wrapping."""

    def compute(a: Array, b: Array) -> Array:
        exact = operation(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32)

    return compute


@opcode("add", "sub", "mul", "div", "fma", "min", "max", "neg", "abs")
def compile_shared(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Opcodes that exist for integers and floats."""
    if is_float(_type_of(modifiers)):
        return compile_float(context, instruction, modifiers)
    name = instruction.opcode
    if name == "mul":
        return _multiply(instruction, modifiers)
    if name in ("neg", "abs"):
        kind = modifiers.type(*INTEGERS)
        compute = np.negative if name == "neg" else _absolute
        return simple(instruction, "integer", kind, (kind,), compute)
    kind = modifiers.type(*INTEGERS, "u16x2", "s16x2")
    if name in ("add", "sub"):
        operation: Binary = np.add if name == "add" else np.subtract
        if modifiers.take("sat"):
            operation = _saturated(kind, operation)
        return simple(instruction, "integer", kind, (kind, kind), operation)
    if name == "div":
        return simple(instruction, "integer", kind, (kind, kind), _divide)
    if name in ("min", "max"):
        limit: Binary = np.minimum if name == "min" else np.maximum
        if modifiers.take("relu"):
            plain = limit
            limit = lambda a, b: np.maximum(plain(a, b), 0)  # noqa: E731
        return simple(instruction, "integer", kind, (kind, kind), limit)
    raise modifiers.unknown()


def _absolute(a: Array) -> Array:
    return np.where(a < 0, np.negative(a), a)


def _divide(a: Array, b: Array) -> Array:
    """Truncates toward zero; division by zero gives all ones, as the hardware does."""
    a, b = np.broadcast_arrays(a, b)
    zero = b == 0
    safe = np.where(zero, np.ones((), b.dtype), b)
    if a.dtype.kind == "u":
        quotient = a // safe
        return np.where(zero, np.iinfo(a.dtype).max, quotient).astype(a.dtype)
    quotient = a // safe
    fix = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return np.where(zero, np.full((), -1, a.dtype), quotient + fix.astype(a.dtype))


def _remainder(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    return np.where(b == 0, a, a - _divide(a, b) * b)


@opcode("rem")
def compile_rem(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Sign of the dividend."""
    kind = modifiers.type(*INTEGERS)
    return simple(instruction, "integer", kind, (kind, kind), _remainder)


def high_product(a: Array, b: Array) -> Array:
    """Upper half of the double-width product."""
    size = a.dtype.itemsize
    if size < 8:
        wide = SIGNED[size * 2] if a.dtype.kind == "i" else UNSIGNED[size * 2]
        return ((a.astype(wide) * b.astype(wide)) >> wide(8 * size)).astype(a.dtype)
    a, b = np.broadcast_arrays(a, b)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    al, ah, bl, bh = ua & low, ua >> half, ub & low, ub >> half
    middle = ah * bl + (al * bl >> half)
    middle2 = al * bh + (middle & low)
    high = ah * bh + (middle >> half) + (middle2 >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
        return high.view(np.int64)
    return high


def _wide_type(kind: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}"


def _product(mode: str, kind: str) -> tuple[str, Binary]:
    """(result type, function) of mul.lo, mul.hi or mul.wide."""
    if mode == "lo":
        return kind, np.multiply
    if mode == "hi":
        return kind, high_product
    wide = _wide_type(kind)
    size = TYPE_BYTES[wide]
    dtype = SIGNED[size] if kind[0] == "s" else UNSIGNED[size]
    return wide, lambda a, b: a.astype(dtype) * b.astype(dtype)


def _multiply(instruction: Instruction, modifiers: Modifiers) -> Compiled:
    mode = modifiers.take("lo", "hi", "wide")
    if mode is None:
        raise modifiers.unknown()
    kind = modifiers.type(*INTEGERS)
    result, product = _product(mode, kind)
    return simple(instruction, "integer", result, (kind, kind), product)


@opcode("mul24", "mad24")
def compile_mul24(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """24-bit multiplication, low part."""
    if modifiers.take("lo") is None:
        raise modifiers.unknown()
    kind = modifiers.type("u32", "s32")
    shift = np.uint32(8) if kind == "u32" else np.int32(8)

    def product(a: Array, b: Array) -> Array:
        return ((a << shift) >> shift) * ((b << shift) >> shift)

    if instruction.opcode == "mul24":
        return simple(instruction, "integer", kind, (kind, kind), product)
    return simple(instruction, "integer", kind, (kind,) * 3, lambda a, b, d: product(a, b) + d)


@opcode("mad")
def compile_mad(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Integer multiply-add; mad.rn.f32 is fma."""
    if is_float(_type_of(modifiers)):
        return compile_float(context, instruction, modifiers)
    mode = modifiers.take("lo", "hi", "wide")
    if mode is None:
        raise modifiers.unknown()
    kind = modifiers.type(*INTEGERS)
    result, product = _product(mode, kind)
    return simple(
        instruction, "integer", result, (kind, kind, result), lambda a, b, d: product(a, b) + d
    )


@opcode("sad")
def compile_sad(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """c + |a - b|"""
    kind = modifiers.type(*INTEGERS)
    return simple(
        instruction, "integer", kind, (kind,) * 3, lambda a, b, d: d + np.where(a < b, b - a, a - b)
    )


@opcode("dp4a")
def compile_dp4a(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Four-way byte dot product and accumulate."""
    second = modifiers.type("u32", "s32")
    first = modifiers.type("u32", "s32")
    result = "s32" if "s32" in (first, second) else "u32"
    types = [np.int8 if t == "s32" else np.uint8 for t in (first, second)]

    def compute(a: Array, b: Array, d: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        left = np.ascontiguousarray(a).view(types[0]).reshape(*a.shape, 4).astype(np.int64)
        right = np.ascontiguousarray(b).view(types[1]).reshape(*b.shape, 4).astype(np.int64)
        return ((left * right).sum(axis=-1) + d).astype(np.uint64).astype(np.uint32)

    return simple(instruction, "integer", result, (first, second, result), compute)


@opcode("selp")
def compile_selp(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """p ? a : b"""
    kind = modifiers.type()
    ops = operands(instruction, 4)
    raw = f"b{8 * TYPE_BYTES[kind]}"
    if is_float(kind):
        # Literals are converted by the type, bits are moved unchanged.
        raw = kind if kind in ("f32", "f64") else raw
    write = writer(ops[0], raw, instruction)
    a, b = reader(ops[1], raw, instruction), reader(ops[2], raw, instruction)
    p = reader(ops[3], "pred", instruction)
    return Compiled("select", run=lambda c: write(c, np.where(p(c), a(c), b(c))))


@opcode("slct")
def compile_slct(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """c >= 0 ? a : b"""
    by = modifiers.type("s32", "f32")
    kind = modifiers.type()
    modifiers.drop("ftz")
    return simple(
        instruction, "select", kind, (kind, kind, by), lambda a, b, d: np.where(d >= 0, a, b)
    )
