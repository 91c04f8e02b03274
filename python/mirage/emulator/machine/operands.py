"""Compiles operands into functions that read or write [n, 32] arrays of a cohort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mirage.emulator.errors import MissingWaitError, UninitialisedReadError, UnknownInstructionError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.ptx.syntax import (
    TYPE_BYTES,
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    VariableRef,
    Vector,
)

Reader = Callable[[Cohort], Array]
Writer = Callable[[Cohort, Array], None]

UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
FLOAT: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "f16x2": np.float16,
}
PACKED = {"f16x2", "bf16x2", "u16x2", "s16x2"}


def dtype_of(kind: str) -> Any:
    """Return the NumPy type of a PTX type. bf16 has none here: its values are read as float32
    arrays."""
    if kind in FLOAT:
        return FLOAT[kind]
    if kind in ("bf16", "bf16x2"):
        return np.float32
    if kind == "pred":
        return np.bool_
    if kind in ("u16x2", "s16x2"):
        return np.uint16 if kind[0] == "u" else np.int16
    size = TYPE_BYTES[kind]
    return SIGNED[size] if kind.startswith("s") else UNSIGNED[size]


def bf16_to_f32(raw: Array) -> Array:
    """Return the float32 values of bf16 bit patterns (exact)."""
    return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(value: Array) -> Array:
    """Return the bf16 bit patterns nearest to float32 values, ties to even; NaN becomes 0x7fff as
    in PTX."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(
        16
    )
    return np.where(np.isnan(value), np.uint32(0x7FFF), rounded).astype(np.uint16)


def typed(raw: Array, kind: str) -> Array:
    """Return register bits (unsigned, of the type's width) as values of the type."""
    if kind == "pred":
        return raw
    if kind == "bf16":
        return bf16_to_f32(raw)
    if kind == "bf16x2":
        return bf16_to_f32(raw.view(np.uint16))
    dtype = dtype_of(kind)
    return raw if raw.dtype == dtype else raw.view(dtype)


def bits(value: Array, kind: str) -> Array:
    """Return values of a type as register bits, unsigned and of the type's width."""
    if kind == "pred":
        return value
    if kind == "bf16":
        return f32_to_bf16(value)
    if kind == "bf16x2":
        return f32_to_bf16(value).view(np.uint32)
    dtype = UNSIGNED[TYPE_BYTES[kind]]
    return value if value.dtype == dtype else np.ascontiguousarray(value).view(dtype)


def immediate_bits(value: int | float, kind: str) -> Array:
    """Return a literal as register bits of a type, shape [1, 1] ([1, 32] for packed types)."""
    size = TYPE_BYTES[kind]
    shape = (1, 32) if kind in PACKED else (1, 1)
    if kind == "pred":
        return np.full(shape, bool(value))
    if isinstance(value, float):
        if kind == "f16":
            return np.full(shape, value, np.float16).view(np.uint16)
        if kind == "bf16":
            return f32_to_bf16(np.full(shape, value, np.float32))
        floating = np.float64 if size == 8 else np.float32
        return np.full(shape, value, floating).view(UNSIGNED[np.dtype(floating).itemsize])
    if kind == "f32":
        return np.full(shape, value, np.float32).view(np.uint32)
    if kind == "f64":
        return np.full(shape, value, np.float64).view(np.uint64)
    return np.full(shape, value & ((1 << (8 * size)) - 1), UNSIGNED[size])


def unsupported(instruction: Instruction, what: str) -> UnknownInstructionError:
    """Return the error for a form of an instruction outside the subset."""
    return UnknownInstructionError(
        f"expected an instruction of the emulated subset, got {what}", site=instruction.site
    )


def read_raw(register: Register, cohort: Cohort, *, check: bool = True) -> Array:
    """Return the bits of a register for the cohort's rows, after the checks that its tracking
    requires."""
    machine = cohort.machine
    if check and register.tracked and machine.checks:
        assert register.written is not None
        bad = ~cohort.take(register.written)
        if cohort.mask is not None:
            bad &= cohort.mask
        if any_of(bad):
            machine.fail(
                UninitialisedReadError,
                f"expected register {register.name} to be written before this read, but it is not",
                cohort,
                bad,
            )
    if register.async_state is not None and machine.checks and machine.wgmma.pending:
        bad_rows = machine.wgmma.unfinished(register, cohort)
        if bad_rows is not None:
            machine.fail(
                MissingWaitError,
                f"expected wgmma.wait_group before register {register.name} is accessed: "
                "a wgmma still writes or reads it",
                cohort,
                bad_rows[:, None] & cohort.active(),
            )
    select = cohort.select
    return register.data if select is None else register.data[select]


def reader(operand: Operand, kind: str, instruction: Instruction) -> Reader:
    """Return a function that gives the operand's values: dtype of `kind`, shape broadcastable to
    [n, 32] ([n, 64] for packed types). Arrays may be views of registers: callers must not write to
    them."""
    if isinstance(operand, Register):
        instruction.uses.append(operand)
        size, register = TYPE_BYTES[kind], operand
        if (register.type == "pred") != (kind == "pred") or register.bytes < size:
            raise unsupported(
                instruction, f"register {register.name} (.{register.type}) as .{kind}"
            )
        if kind == "pred" or register.bytes == size:
            plain = kind != "pred" and dtype_of(kind) == UNSIGNED[size] and kind not in PACKED
            if kind == "pred" or plain:
                return lambda c: read_raw(register, c)
            return lambda c: typed(read_raw(register, c), kind)
        narrow = UNSIGNED[size]
        return lambda c: typed(read_raw(register, c).astype(narrow), kind)
    if isinstance(operand, Immediate):
        constant = typed(immediate_bits(operand.value, kind), kind)
        return lambda c: constant
    if isinstance(operand, Special):
        return _special(operand.name, kind)
    if isinstance(operand, VariableRef):
        return _variable(operand, kind)
    if isinstance(operand, Negated):
        register = operand.register
        instruction.uses.append(register)
        return lambda c: ~read_raw(register, c)
    raise unsupported(instruction, f"operand {operand}")


def _special(name: str, kind: str) -> Reader:
    dtype = dtype_of(kind)

    def read(c: Cohort) -> Array:
        value = c.machine.special(name)
        if value.shape[0] != 1:
            value = c.take(value)
        return value.astype(dtype)

    return read


def _variable(operand: VariableRef, kind: str) -> Reader:
    variable, offset, dtype = operand.variable, operand.offset, UNSIGNED[TYPE_BYTES[kind]]

    def read(c: Cohort) -> Array:
        return typed(np.array([[variable.address + offset]], dtype), kind)

    return read


def store(register: Register, cohort: Cohort, value: Array) -> None:
    """Write bits of the register's width to the active lanes. `value` must be fresh memory: it may
    become the register's storage."""
    machine = cohort.machine
    if register.async_state is not None:
        machine.wgmma.note_write(register, cohort)
    select, mask = cohort.select, cohort.mask
    if mask is None:
        if select is None:
            if value.shape == register.data.shape and value.flags.writeable:
                register.data = value
            else:
                register.data = np.broadcast_to(value, register.data.shape).copy()
        else:
            register.data[select] = value
        if register.tracked:
            assert register.written is not None
            register.written[... if select is None else select] = True
        return
    if select is None:
        np.copyto(register.data, value, where=mask)
    elif isinstance(select, slice):
        np.copyto(register.data[select], value, where=mask)
    else:
        register.data[select] = np.where(mask, value, register.data[select])
    if register.tracked:
        assert register.written is not None
        if select is None or isinstance(select, slice):
            register.written[... if select is None else select] |= mask
        else:
            register.written[select] |= mask


def writer(operand: Operand, kind: str, instruction: Instruction, *, fresh: bool = True) -> Writer:
    """Return a function that writes values of `kind`; a wider register is sign- or zero-extended.
    With fresh=False the value may alias a register and is copied."""
    if isinstance(operand, Sink):
        return lambda c, value: None
    if not isinstance(operand, Register):
        raise unsupported(instruction, f"destination {operand}")
    register, size = operand, TYPE_BYTES[kind]
    instruction.defs.append(register)
    if (register.type == "pred") != (kind == "pred") or register.bytes < size:
        raise unsupported(
            instruction, f"destination {register.name} (.{register.type}) for .{kind}"
        )
    if kind == "pred" or register.bytes == size:
        if fresh:
            return lambda c, value: store(register, c, bits(value, kind))
        return lambda c, value: store(register, c, bits(value, kind).copy())
    signed, wide = kind.startswith("s"), register.bytes

    def extend(c: Cohort, value: Array) -> None:
        if signed:
            wider = value.astype(SIGNED[wide]).view(UNSIGNED[wide])
        else:
            wider = bits(value, kind).astype(UNSIGNED[wide])
        store(register, c, wider)

    return extend


def items(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector operand; a scalar is its own only element."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def split_pair(operand: Operand) -> tuple[Operand, Operand | None]:
    """Return both sides of `d|p`."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def address_reader(operand: Operand, instruction: Instruction) -> Reader:
    """Return a function that gives addresses as int64, shape broadcastable to [n, 32]; 32-bit
    registers are zero-extended."""
    if not isinstance(operand, Address):
        raise unsupported(instruction, f"{operand} where an address was expected")
    base, offset = operand.base, np.int64(operand.offset)
    if isinstance(base, Register):
        register = base
        instruction.uses.append(register)
        if register.bytes == 8:
            if offset:
                return lambda c: read_raw(register, c).view(np.int64) + offset
            return lambda c: read_raw(register, c).view(np.int64)
        if register.bytes != 4:
            raise unsupported(instruction, f"address register {register.name} (.{register.type})")
        return lambda c: read_raw(register, c).astype(np.int64) + offset
    if isinstance(base, VariableRef):
        variable = base.variable
        extra = base.offset + operand.offset
        return lambda c: np.array([[variable.address + extra]], np.int64)
    if isinstance(base, Immediate) and isinstance(base.value, int):
        constant = np.full((1, 1), base.value, np.int64) + offset
        return lambda c: constant
    raise unsupported(instruction, f"address {operand}")
