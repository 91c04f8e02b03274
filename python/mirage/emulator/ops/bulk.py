"""cp.async.bulk and cp.async.bulk.tensor: copies by the asynchronous proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mirage.emulator.machine.cohort import Cohort
from mirage.emulator.machine.operands import Reader, address_reader, reader
from mirage.emulator.ops.bits import COMBINE
from mirage.emulator.ops.bulk_access import (
    Load,
    count_in_flight,
    deliver,
    grid,
    read_global,
    read_shared,
    require,
    shared_byte,
    write_global,
)
from mirage.emulator.ops.bulk_tensor import coordinates_of, load_tensor, store_tensor
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, operands
from mirage.emulator.ptx.syntax import Immediate, Instruction

SHARED = ("shared::cluster", "shared::cta")
COMPLETE = "mbarrier::complete_tx::bytes"


def compile_bulk(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Everything whose opcode starts with cp.async.bulk or cp.reduce.async.bulk."""
    reduce = modifiers.take("reduce") is not None
    modifiers.take("async")
    modifiers.take("bulk")
    context.shared(16)
    if modifiers.take("commit_group"):
        operands(instruction, 0)
        context.features.add("bulk_store")
        return Compiled("bulk-copy", run=_commit)
    if modifiers.take("wait_group"):
        written = modifiers.take("read") is None
        (count,) = operands(instruction, 1)
        if not isinstance(count, Immediate) or not isinstance(count.value, int):
            raise modifiers.unknown()
        keep = count.value
        context.features.add("bulk_store")
        return Compiled("bulk-copy", run=lambda c: _wait(c, keep, written=written))
    if modifiers.take("prefetch"):
        modifiers.rest.clear()
        return Compiled("bulk-copy", run=lambda c: None)
    hint = "L2::cache_hint" in modifiers.rest
    modifiers.drop("L2::cache_hint")
    tensor = modifiers.take("tensor") is not None
    rank = int((modifiers.take("1d", "2d", "3d", "4d", "5d") or "0")[0]) if tensor else 0
    if tensor:
        modifiers.drop("tile")
    spaces = [m for m in modifiers.rest if m in (*SHARED, "global")]
    modifiers.drop(*SHARED, "global")
    if len(spaces) != 2:
        raise modifiers.unknown()
    if spaces[0] == "global":
        return _store(context, instruction, modifiers, reduce=reduce, rank=rank, hint=hint)
    if reduce or modifiers.take(COMPLETE) is None:
        raise modifiers.unknown()
    multicast = modifiers.take("multicast::cluster") is not None
    context.features.add("mbarrier")
    context.shared(8)
    ops = list(operands(instruction, 3, 6))
    if hint:
        ops.pop()
    mask = reader(ops.pop(), "b16", instruction) if multicast else None
    load = Load(
        target=address_reader(ops[0], instruction),
        source=address_reader(ops[1], instruction),
        barrier=address_reader(ops[-1], instruction),
        mask=mask,
    )
    if rank:
        coordinates = coordinates_of(instruction, modifiers, ops[1], rank)
        if len(ops) != 3 or spaces[1] != "global":
            raise modifiers.unknown()
        return Compiled("bulk-copy", run=lambda c: load_tensor(c, load, coordinates))
    if len(ops) != 4:
        raise modifiers.unknown()
    size = reader(ops[2], "u32", instruction)
    if spaces[1] == "global":
        return Compiled("bulk-copy", run=lambda c: _load_plain(c, load, size))
    return Compiled("bulk-copy", run=lambda c: _copy_shared(c, load, size))


def _load_plain(c: Cohort, load: Load, size: Reader) -> None:
    source, amount, places = grid(c, load.source), grid(c, size), load.places(c)
    for i, lane in np.argwhere(c.active()).tolist():
        address, count = int(source[i, lane]), int(amount[i, lane])
        require(c, i, lane, address, 16, "global address")
        require(c, i, lane, count, 16, "size")
        data = read_global(c, i, lane, address, count)
        deliver(c, places, i, lane, data, 16, 0)
    count_in_flight(c)


def _copy_shared(c: Cohort, load: Load, size: Reader) -> None:
    amount, source, places = grid(c, size), grid(c, load.source), load.places(c)
    for i, lane in np.argwhere(c.active()).tolist():
        count = int(amount[i, lane])
        require(c, i, lane, int(source[i, lane]), 16, "shared address")
        require(c, i, lane, count, 16, "size")
        flat = shared_byte(c, i, lane, int(places.barrier[i, lane]), 8, 8)
        barrier = c.machine.mbarriers.find(c, flat, i, lane, proxy=True)
        data = read_shared(c, i, lane, source, count, until=barrier)
        deliver(c, places, i, lane, data, 16, 0)
    count_in_flight(c)


def _store(
    context: Context,
    instruction: Instruction,
    modifiers: Modifiers,
    *,
    reduce: bool,
    rank: int,
    hint: bool,
) -> Compiled:
    context.features.add("bulk_store")
    if modifiers.take("bulk_group") is None:
        raise modifiers.unknown()
    operation: Callable[[Any, Any], Any] | None = None
    kind = ""
    if reduce:
        name = modifiers.take(*COMBINE)
        modifiers.drop("noftz")
        if name is None:
            raise modifiers.unknown()
        operation = COMBINE[name]
        if not rank:
            kind = modifiers.type("f16", "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64")
    ops = list(operands(instruction, 2, 4))
    if hint:
        ops.pop()
    target = address_reader(ops[0], instruction)
    source = address_reader(ops[1], instruction)
    if rank:
        coordinates = coordinates_of(instruction, modifiers, ops[0], rank)
        return Compiled(
            "bulk-copy", run=lambda c: store_tensor(c, target, source, coordinates, operation)
        )
    size = reader(ops[2], "u32", instruction)
    dtype: Any = kind.replace("s", "i").replace("b", "u") if kind else "u1"
    dtype = {"f16": "f2", "f32": "f4", "f64": "f8", "u32": "u4", "i32": "i4"}.get(dtype, dtype)
    dtype = {"u64": "u8", "i64": "i8"}.get(dtype, dtype)

    def applied(before: Any, value: Any) -> Any:
        assert operation is not None
        return operation(before.view(dtype), value.view(dtype)).view(np.uint8)

    combine = None if operation is None else applied

    def run(c: Cohort) -> None:
        to, of, amount = grid(c, target), grid(c, source), grid(c, size)
        for i, lane in np.argwhere(c.active()).tolist():
            count = int(amount[i, lane])
            require(c, i, lane, int(to[i, lane]), 16, "global address")
            require(c, i, lane, count, 16, "size")
            data = read_shared(c, i, lane, of, count)
            write_global(c, i, lane, int(to[i, lane]), data, combine)
            c.machine.note(bulk_copy_bytes=count)
        c.machine.events += 1

    return Compiled("bulk-copy", run=run)


def _commit(c: Cohort) -> None:
    c.machine.bulk_group[c.rows] += 1


def _wait(c: Cohort, keep: int, *, written: bool) -> None:
    """Wait until groups, except the `keep` newest ones, have read shared memory; with `written`,
    until they have also written their results."""
    machine = c.machine
    rows = c.rows
    done = np.maximum(machine.bulk_group[rows] - 1 - keep, 0)
    for base in (machine.bulk_agent, *([machine.bulk_write_agent] if written else [])):
        agent = base + machine.agent_of_row[rows]
        machine.clocks[rows, agent] = np.maximum(machine.clocks[rows, agent], done)
