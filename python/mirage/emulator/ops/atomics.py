"""atom, red: read-modify-write in global and shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mirage.emulator.machine import memory
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.operands import (
    FLOAT,
    address_reader,
    bf16_to_f32,
    dtype_of,
    f32_to_bf16,
    items,
    reader,
    writer,
)
from mirage.emulator.machine.releases import Sync
from mirage.emulator.ops import numerics
from mirage.emulator.ops.memory_access import SPACES, WINDOW_BASE, by_window, sync_of
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands
from mirage.emulator.ptx.syntax import TYPE_BYTES, Instruction, Sink


def _atomic_function(name: str, kind: str) -> Callable[[Any, Any, Any], Any] | None:
    """new = f(old, b, c) on values of the type."""
    functions: dict[str, Callable[[Any, Any, Any], Any]] = {
        "add": lambda old, b, c: old + b,
        "min": lambda old, b, c: np.minimum(old, b),
        "max": lambda old, b, c: np.maximum(old, b),
        "and": lambda old, b, c: old & b,
        "or": lambda old, b, c: old | b,
        "xor": lambda old, b, c: old ^ b,
        "exch": lambda old, b, c: b,
        "cas": lambda old, b, c: np.where(old == b, c, old),
        "inc": lambda old, b, c: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
        "dec": lambda old, b, c: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
    }
    if kind in FLOAT or kind.startswith("bf16"):
        if name not in ("add", "min", "max"):
            return None
        if kind.startswith("bf16") and name == "add":
            return lambda old, b, c: bf16_to_f32(f32_to_bf16(old + b))
        if name == "add" and kind == "f32":
            return lambda old, b, c: numerics.flush(np.atleast_1d(old + b))
        if name != "add":
            largest = name == "max"
            return lambda old, b, c: numerics.minimum(old, b, nan=False, largest=largest)
    return functions.get(name)


@opcode("atom", "red")
def compile_atom(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Read-modify-write, one lane after another in the order of rows and lanes."""
    returns = instruction.opcode == "atom"
    if "async" in modifiers.rest:
        raise modifiers.unknown()
    sync = sync_of(modifiers.take("acquire", "release", "relaxed", "acq_rel"), modifiers)
    modifiers.drop("noftz")
    hint = "L2::cache_hint" in modifiers.rest
    modifiers.drop_prefix("L2::")
    space = (modifiers.take(*SPACES) or "generic").partition("::")[0]
    kind = modifiers.type(
        "b16",
        "b32",
        "u32",
        "s32",
        "b64",
        "u64",
        "s64",
        "f16",
        "f16x2",
        "bf16",
        "bf16x2",
        "f32",
        "f64",
    )
    lanes = modifiers.take("v2", "v4")
    name = modifiers.take("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    function = _atomic_function(name or "", kind)
    if function is None or space in ("local", "const", "param"):
        raise modifiers.unknown()
    count = int(lanes[1:]) if lanes else 1
    wanted = (1 if returns else 0) + 2 + (1 if name == "cas" else 0)
    ops = list(operands(instruction, wanted, wanted + (1 if hint else 0)))
    target = ops.pop(0) if returns else Sink()
    address = address_reader(ops[0], instruction)
    size = TYPE_BYTES[kind]
    context.features.add("atomic")
    if space != "global":
        context.shared(size)
    if space != "shared":
        context.device(size)
    raw = f"b{8 * size}" if not kind.startswith("f") or kind in ("f16", "f16x2") else kind
    sources = items(ops[1])
    targets = items(target) if not isinstance(target, Sink) else (target,) * count
    if len(sources) != count:
        raise modifiers.unknown()
    reads = [reader(s, raw, instruction) for s in sources]
    second = reader(ops[2], raw, instruction) if name == "cas" else None
    writes = [writer(t, raw, instruction) for t in targets]

    def run(c: Cohort) -> None:
        base = np.broadcast_to(address(c), (c.n, 32))
        c.machine.events += 1
        for i, read in enumerate(reads):
            b = np.broadcast_to(read(c).view(f"u{size}"), (c.n, 32))
            d = b if second is None else np.broadcast_to(second(c).view(f"u{size}"), (c.n, 32))
            old = _update(c, space, base + i * size, b, d, size, kind, function, sync)
            writes[i](c, old if raw.startswith("b") else old.view(dtype_of(raw)))

    return Compiled(f"atomic-{space}", run=run, polls=returns)


def _places(
    c: Cohort, space: str, address: Array, size: int, sync: Sync
) -> list[tuple[Array, Array, Array]]:
    """Return the memory that an atomic updates, once it is checked: (carriers, lanes [n, 32],
    places [n, 32])."""
    machine = c.machine
    places: list[tuple[Array, Array, Array]] = []
    if space == "global":
        machine.note(global_atomics=c.active().sum())
        order = machine.memory.order
        if machine.checks:
            order.releases.strong(c, address, sync, reads=True, writes=True)
        for allocation, lanes, offset in machine.memory.locate(c, address, size):
            if allocation.written is not None and machine.checks:
                machine.memory.check_written(c, allocation, lanes, offset, address, size)
            if machine.checks:
                changes = np.ones(int(lanes.sum()), bool)
                order.write(c, allocation, lanes, offset, size, changes, strong=True)
            places.append((allocation.view(size), lanes, offset // size))
    else:
        flat = machine.shared.flatten(c, address, size)
        if machine.checks:
            races = machine.shared.races
            races.atomic(c, *races.spread(c, flat, size))
        places.append((machine.shared.data.view(memory.CARRIER[size]), c.active(), flat // size))
    return places


def _update(
    c: Cohort,
    space: str,
    address: Array,
    b: Array,
    d: Array,
    size: int,
    kind: str,
    function: Callable[[Any, Any, Any], Any],
    sync: Sync,
) -> Array:
    """Apply the function lane by lane; return the old bits [n, 32]."""
    old = np.zeros((c.n, 32), f"u{size}")
    if space == "generic":
        for part, sub, lanes in by_window(c, address):
            value = _update(part, sub, address - WINDOW_BASE[sub], b, d, size, kind, function, sync)
            old[lanes] = value[lanes]
        return old
    places = _places(c, space, address, size, sync)

    def as_value(raw: Array) -> Array:
        if kind in ("bf16", "bf16x2"):
            return bf16_to_f32(raw.view(np.uint16))
        return raw.view(dtype_of(kind))

    def as_bits(value: Array) -> Array:
        if kind in ("bf16", "bf16x2"):
            return f32_to_bf16(np.atleast_1d(value)).view(f"u{size}")
        return np.atleast_1d(np.asarray(value, dtype_of(kind))).view(f"u{size}")

    for view, lanes, index in places:
        where = np.argwhere(lanes)
        flat = index[lanes]
        if len(np.unique(flat)) == len(flat):
            before = view[flat]
            old[lanes] = before
            view[flat] = as_bits(function(as_value(before), as_value(b[lanes]), as_value(d[lanes])))
            continue
        for i, lane in where.tolist():
            at = index[i, lane]
            before = view[at : at + 1].copy()
            old[i, lane] = before[0]
            new = function(
                as_value(before), as_value(b[i, lane : lane + 1]), as_value(d[i, lane : lane + 1])
            )
            view[at : at + 1] = as_bits(new)
    return old
