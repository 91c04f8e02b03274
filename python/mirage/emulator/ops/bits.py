"""Logic, shifts, bit fields, byte permutation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import reader, writer
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands, simple
from mirage.emulator.ptx.syntax import TYPE_BYTES, Immediate, Instruction

WORDS = ("b16", "b32", "b64", "pred")
COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""The functions that combine two numbers, by the names that instructions have for them."""


@opcode("and", "or", "xor")
def compile_logic(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Bitwise, or on predicates."""
    kind = modifiers.type(*WORDS)
    return simple(instruction, "integer", kind, (kind, kind), COMBINE[instruction.opcode])


@opcode("not")
def compile_not(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Complement."""
    kind = modifiers.type(*WORDS)
    return simple(instruction, "integer", kind, (kind,), np.invert)


@opcode("cnot")
def compile_cnot(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """1 where the operand is 0."""
    kind = modifiers.type("b16", "b32", "b64")
    return simple(instruction, "integer", kind, (kind,), lambda a: (a == 0).astype(a.dtype))


@opcode("shl", "shr")
def compile_shift(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Amounts beyond the width give 0 (or the sign); the amount is always a u32."""
    left = instruction.opcode == "shl"
    kind = modifiers.type(*(f"{k}{b}" for k in "bus" for b in (16, 32, 64)))
    width = 8 * TYPE_BYTES[kind]

    def compute(a: Array, amount: Array) -> Array:
        over = amount >= width
        small = np.minimum(amount, np.uint32(width - 1)).astype(a.dtype)
        if left:
            value = a << small
            return np.where(over, np.zeros((), a.dtype), value) if any_of(over) else value
        value = a >> small
        if a.dtype.kind == "i" or not any_of(over):
            return value
        return np.where(over, np.zeros((), a.dtype), value)

    return simple(instruction, "integer", kind, (kind, "u32"), compute)


@opcode("shf")
def compile_funnel(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Funnel shift of the 64-bit value b:a."""
    kind = modifiers.type("b32")
    side = modifiers.take("l", "r")
    mode = modifiers.take("wrap", "clamp")
    if side is None or mode is None:
        raise modifiers.unknown()

    def compute(a: Array, b: Array, amount: Array) -> Array:
        n = (amount & np.uint32(31)) if mode == "wrap" else np.minimum(amount, np.uint32(32))
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        n64 = n.astype(np.uint64)
        value = (both << n64) >> np.uint64(32) if side == "l" else both >> n64
        return (value & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return simple(instruction, "integer", kind, (kind, kind, "u32"), compute)


@opcode("prmt")
def compile_prmt(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Picks four of eight bytes: those that selectors name, whose bit 3 replicates the sign; or
    (f4e) four in a row from one of the first four on."""
    mode = modifiers.take("f4e")
    kind = modifiers.type("b32")

    def compute(a: Array, b: Array, selector: Array) -> Array:
        if mode is not None:
            selector = np.uint32(0x3210) + (selector & np.uint32(3)) * np.uint32(0x1111)
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        result: Any = np.uint32(0)
        for byte in range(4):
            pick = (selector >> np.uint32(4 * byte)) & np.uint32(15)
            shift = (np.uint64(8) * (pick & np.uint32(7)).astype(np.uint64)).astype(np.uint64)
            value = ((both >> shift) & np.uint64(0xFF)).astype(np.uint32)
            sign = np.where(value & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
            value = np.where(pick & np.uint32(8), sign, value)
            result = result | (value << np.uint32(8 * byte))
        return np.asarray(result, np.uint32)

    return simple(instruction, "integer", kind, (kind, kind, kind), compute)


@opcode("bfe")
def compile_bfe(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Bit field extract."""
    kind = modifiers.type("u32", "s32", "u64", "s64")
    width = 8 * TYPE_BYTES[kind]

    def compute(a: Array, position: Array, length: Array) -> Array:
        pos = (position & np.uint32(255)).astype(np.int64)
        size = (length & np.uint32(255)).astype(np.int64)
        value = a.view(np.uint64 if width == 64 else np.uint32).astype(np.uint64)
        field = np.where(pos >= width, 0, value >> np.minimum(pos, 63).astype(np.uint64))
        ones = np.where(
            size >= 64,
            np.uint64(0xFFFFFFFFFFFFFFFF),
            (np.uint64(1) << np.minimum(size, 63).astype(np.uint64)) - np.uint64(1),
        )
        field = field.astype(np.uint64) & ones
        if a.dtype.kind == "i":
            last = np.minimum(pos + size - 1, width - 1)
            sign = (value >> np.clip(last, 0, 63).astype(np.uint64)) & np.uint64(1)
            kept = np.where(pos + size > width, np.maximum(width - pos, 0), size)
            filled = np.where(
                kept >= 64,
                np.uint64(0),
                ~((np.uint64(1) << np.minimum(kept, 63).astype(np.uint64)) - np.uint64(1)),
            )
            field = np.where((sign == 1) & (size > 0), field | filled, field)
        return field.astype(np.uint64 if width == 64 else np.uint32)

    return simple(instruction, "integer", f"b{width}", (kind, "u32", "u32"), compute)


@opcode("bfi")
def compile_bfi(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Bit field insert: the low bits of a into b."""
    kind = modifiers.type("b32", "b64")
    width = 8 * TYPE_BYTES[kind]

    def compute(a: Array, b: Array, position: Array, length: Array) -> Array:
        pos = (position & np.uint32(255)).astype(np.int64)
        size = np.minimum((length & np.uint32(255)).astype(np.int64), np.maximum(width - pos, 0))
        ones = np.where(
            size >= 64,
            np.uint64(0xFFFFFFFFFFFFFFFF),
            (np.uint64(1) << np.minimum(size, 63).astype(np.uint64)) - np.uint64(1),
        )
        shift = np.minimum(pos, 63).astype(np.uint64)
        mask = ones << shift
        value = (b.astype(np.uint64) & ~mask) | ((a.astype(np.uint64) << shift) & mask)
        return value.astype(b.dtype)

    return simple(instruction, "integer", kind, (kind, kind, "u32", "u32"), compute)


@opcode("bfind")
def compile_bfind(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Index of the highest bit that is not a sign bit; 0xffffffff if none."""
    kind = modifiers.type("u32", "s32", "u64", "s64")
    amount = modifiers.take("shiftamt") is not None
    width = 8 * TYPE_BYTES[kind]

    def compute(a: Array) -> Array:
        value = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
        index = _highest(value.astype(np.uint64))
        none = index < 0
        result = np.where(none, -1, width - 1 - index if amount else index)
        return result.astype(np.int32).view(np.uint32)

    return simple(instruction, "integer", "u32", (kind,), compute)


def _highest(value: Array) -> Array:
    """Index of the highest set bit of uint64, -1 for 0."""
    result = np.full(value.shape, -1, np.int64)
    rest = value.copy()
    for step in (32, 16, 8, 4, 2, 1):
        big = rest >= (np.uint64(1) << np.uint64(step))
        result = np.where(big, result + step, result)
        rest = np.where(big, rest >> np.uint64(step), rest)
    return np.where(value == 0, -1, result + 1)


@opcode("clz", "popc", "brev")
def compile_count(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Leading zeros, population count, bit reversal."""
    kind = modifiers.type("b32", "b64")
    width = 8 * TYPE_BYTES[kind]
    name = instruction.opcode
    if name == "clz":
        return simple(
            instruction,
            "integer",
            "u32",
            (kind,),
            lambda a: (width - 1 - _highest(a.astype(np.uint64))).astype(np.uint32),
        )
    if name == "popc":
        return simple(
            instruction, "integer", "u32", (kind,), lambda a: np.bitwise_count(a).astype(np.uint32)
        )

    def reverse(a: Array) -> Array:
        flat = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, width // 8)
        bits = np.unpackbits(flat, axis=-1, bitorder="little")[..., ::-1]
        packed = np.packbits(bits, axis=-1, bitorder="little")
        return packed.view(a.dtype).reshape(a.shape)

    return simple(instruction, "integer", kind, (kind,), reverse)


@opcode("lop3")
def compile_lop3(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Any function of three bits, by its truth table."""
    kind = modifiers.type("b32")
    ops = operands(instruction, 5)
    table = ops[4]
    if not isinstance(table, Immediate) or not isinstance(table.value, int):
        raise modifiers.unknown()
    lut = table.value
    write = writer(ops[0], kind, instruction)
    reads = [reader(o, kind, instruction) for o in ops[1:4]]

    def run(c: Any) -> None:
        a, b, d = (r(c) for r in reads)
        result: Any = np.zeros((1, 1), np.uint32)
        for index in range(8):
            if lut >> index & 1:
                term = a if index & 4 else ~a
                term = term & (b if index & 2 else ~b)
                result = result | (term & (d if index & 1 else ~d))
        write(c, result)

    return Compiled("integer", run=run)


@opcode("bmsk", "szext")
def compile_mask(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """bmsk: ones of a length at a position; szext: sign or zero extension from a bit."""
    mode = modifiers.take("clamp", "wrap")
    kind = modifiers.type("b32", "u32", "s32")
    if mode is None:
        raise modifiers.unknown()

    def bound(amount: Array) -> Array:
        return (
            amount & np.uint32(31) if mode == "wrap" else np.minimum(amount, np.uint32(32))
        ).astype(np.uint64)

    def mask(a: Array, b: Array) -> Array:
        ones = (np.uint64(1) << bound(b)) - np.uint64(1)
        return ((ones << bound(a)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    def extend(a: Array, b: Array) -> Array:
        n = bound(b)
        ones = (np.uint64(1) << n) - np.uint64(1)
        value = a.view(np.uint32).astype(np.uint64) & ones
        if kind == "s32":
            top = np.where(
                n > 0, (value >> (np.maximum(n, np.uint64(1)) - np.uint64(1))) & np.uint64(1), 0
            )
            value = np.where(top == 1, value | ~ones, value)
        return (value & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    if instruction.opcode == "bmsk":
        return simple(instruction, "integer", "b32", ("u32", "u32"), mask)
    return simple(instruction, "integer", "b32", (kind, "u32"), extend)
