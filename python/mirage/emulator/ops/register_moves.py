"""mov and cvta."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.emulator.machine.cohort import Cohort
from mirage.emulator.machine.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from mirage.emulator.machine.operands import (
    Reader,
    items,
    read_raw,
    reader,
    store,
    writer,
)
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, Run, opcode, operands
from mirage.emulator.ptx.syntax import TYPE_BYTES, Address, Instruction, Operand, Register, Vector


@opcode("mov")
def compile_mov(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Moves bits; packs and unpacks vectors."""
    kind = modifiers.type()
    target, source = operands(instruction, 2)
    if kind == "pred":
        write = writer(target, kind, instruction, fresh=False)
        read = reader(source, kind, instruction)
        return Compiled("move", run=lambda c: write(c, np.array(read(c))))
    size = TYPE_BYTES[kind]
    if isinstance(source, Vector) or isinstance(target, Vector):
        return _move_vector(instruction, size, target, source)
    raw = f"b{8 * size}"
    if kind in ("f32", "f64"):
        raw = kind
    write = writer(target, raw, instruction, fresh=False)
    if isinstance(source, Register) and isinstance(target, Register):
        if source.bytes != size or source.type == "pred":
            raise modifiers.unknown()
        instruction.copies.append((source, target))
        return Compiled("move", run=_copy(source, target))
    read = reader(source, raw, instruction)
    return Compiled("move", run=lambda c: write(c, read(c)))


def _copy(source: Register, target: Register) -> Run:
    """A copy of an unwritten register is unwritten: compilers copy undefined values and never use
    them."""

    def run(c: Cohort) -> None:
        store(target, c, read_raw(source, c, check=False).copy())
        if source.tracked and source.written is not None and target.written is not None:
            known = c.take(source.written) | ~c.active()
            if c.select is None:
                target.written &= known
            else:
                target.written[c.select] &= known

    return run


def _part_reader(operand: Operand, kind: str, instruction: Instruction) -> Reader:
    """Return a reader of a part of a packed move, whose elements may be undefined as long as that
    part is not read."""
    if isinstance(operand, Register) and operand.bytes == TYPE_BYTES[kind]:
        register = operand
        instruction.copies.append((register, None))
        return lambda c: read_raw(register, c, check=False)
    return reader(operand, kind, instruction)


def _move_vector(instruction: Instruction, size: int, target: Any, source: Any) -> Compiled:
    to, of = items(target), items(source)
    part = f"b{8 * size // max(len(to), len(of))}"
    part_size = TYPE_BYTES[part]
    if len(to) == 1:
        write = writer(target, f"b{8 * size}", instruction)
        reads = [_part_reader(o, part, instruction) for o in of]
        dtype: Any = f"u{size}"

        def pack(c: Cohort) -> None:
            value: Any = np.zeros((1, 1), dtype)
            for i, read in enumerate(reads):
                shift = np.array(8 * part_size * i, dtype)
                value = value | (read(c).astype(dtype) << shift)
            write(c, value)

        return Compiled("move", run=pack)
    writes = [writer(t, part, instruction) for t in to]
    if len(of) == 1:
        whole = reader(source, f"b{8 * size}", instruction)

        def unpack(c: Cohort) -> None:
            value = whole(c)
            for i, write_part in enumerate(writes):
                shift = value.dtype.type(8 * part_size * i)
                write_part(c, (value >> shift).astype(f"u{part_size}"))

        return Compiled("move", run=unpack)
    parts = [reader(o, part, instruction) for o in of]

    def copy(c: Cohort) -> None:
        values = [np.array(p(c)) for p in parts]
        for write_part, value in zip(writes, values, strict=True):
            write_part(c, value)

    return Compiled("move", run=copy)


_WINDOWS = {
    "global": 0,
    "const": 0,
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}


@opcode("cvta")
def compile_cvta(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Between a space and generic addresses."""
    kind = modifiers.type("u64", "u32")
    to = modifiers.take("to") is not None
    space = modifiers.take(*_WINDOWS)
    if space is None:
        raise modifiers.unknown()
    window = _WINDOWS[space] if kind == "u64" else 0
    target, source = operands(instruction, 2)
    write = writer(target, kind, instruction)
    read = reader(source.base if isinstance(source, Address) else source, kind, instruction)
    shift = np.array(-window if to else window, np.int64).astype(f"u{TYPE_BYTES[kind]}")
    return Compiled("move", run=lambda c: write(c, read(c) + shift))
