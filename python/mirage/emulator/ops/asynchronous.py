"""cp.async and its groups. Copies happen at once; the race check knows that they are not visible
before the wait that covers their group."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.emulator.machine import access_patterns, memory
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of
from mirage.emulator.machine.operands import address_reader, reader
from mirage.emulator.ops.bulk import compile_bulk
from mirage.emulator.ops.memory_access import count_shared
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands
from mirage.emulator.ptx.syntax import Immediate, Instruction, Register


@opcode("cp")
def compile_cp(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """cp.async in all its forms."""
    if modifiers.rest[:2] in (["async", "bulk"], ["reduce", "async"]):
        return compile_bulk(context, instruction, modifiers)
    if modifiers.take("async") is None:
        raise modifiers.unknown()
    context.features.add("cp_async")
    if modifiers.take("commit_group"):
        operands(instruction, 0)
        return Compiled("async-copy", run=_commit)
    if modifiers.take("wait_all"):
        operands(instruction, 0)
        return Compiled("async-copy", run=lambda c: _wait(c, -1))
    if modifiers.take("wait_group"):
        (count,) = operands(instruction, 1)
        if not isinstance(count, Immediate) or not isinstance(count.value, int):
            raise modifiers.unknown()
        keep = count.value
        return Compiled("async-copy", run=lambda c: _wait(c, keep))
    if modifiers.take("mbarrier"):
        return _mbarrier_arrive(context, instruction, modifiers)
    return _copy(context, instruction, modifiers)


def _copy(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size | ignore}{, policy}"""
    cache = modifiers.take("ca", "cg")
    hint = "L2::cache_hint" in modifiers.rest
    modifiers.drop_prefix("L2::")
    if cache is None or modifiers.take("shared", "shared::cta") is None:
        raise modifiers.unknown()
    if modifiers.take("global") is None:
        raise modifiers.unknown()
    ops = list(operands(instruction, 3, 5))
    if hint:
        ops.pop()
    size = ops[2].value if isinstance(ops[2], Immediate) else 0
    if size not in ((4, 8, 16) if cache == "ca" else (16,)) or not isinstance(size, int):
        raise modifiers.unknown()
    context.shared(size)
    target, source = address_reader(ops[0], instruction), address_reader(ops[1], instruction)
    partial = ignore = None
    if len(ops) == 4:
        if isinstance(ops[3], Register) and ops[3].type == "pred":
            ignore = reader(ops[3], "pred", instruction)
        else:
            partial = reader(ops[3], "u32", instruction)
    carrier: Any = memory.CARRIER[size]

    def run(c: Cohort) -> None:
        machine = c.machine
        to = np.broadcast_to(target(c), (c.n, 32))
        of = np.broadcast_to(source(c), (c.n, 32))
        length = np.full((c.n, 32), size, np.int64)
        if partial is not None:
            length = np.minimum(np.broadcast_to(partial(c), (c.n, 32)).astype(np.int64), size)
        elif ignore is not None:
            length = np.where(ignore(c), 0, length)
        value = _gather(c, of, length, size).view(carrier)
        _publish(c, to, value, size)
        machine.events += 1
        if machine.stats:
            machine.note(async_copy_bytes=int(length[c.active()].sum()))
            count_shared(c, to, size, store=True)
            some = (length > 0) & c.active()
            if any_of(some):
                touched = access_patterns.sectors(of, some, size, machine.pattern_cache)
                machine.note(
                    global_load_bytes=int(length[c.active()].sum()), global_load_sectors=touched
                )
            for row, amount in zip(c.rows.tolist(), length.sum(axis=1).tolist(), strict=True):
                machine.copy_bytes[row][-1] += amount
            machine.note_in_flight(c)

    return Compiled("async-copy", run=run)


def _gather(c: Cohort, source: Array, length: Array, size: int) -> Array:
    """Return the copied bytes [n, 32 * size]: zeros beyond each lane's length."""
    active = c.active()
    whole = active & (length == size)
    result = np.zeros((c.n, 32, size), np.uint8)
    if any_of(whole):
        part = c if all_of(whole) else c.masked(whole)
        loaded = c.machine.memory.load(part, source, size)
        raw = np.ascontiguousarray(loaded).view(np.uint8).reshape(c.n, 32, size)
        result[whole] = raw[whole]
    for amount in np.unique(length[active & ~whole & (length > 0)]).tolist():
        lanes = active & (length == amount)
        for byte in range(amount):
            loaded = c.machine.memory.load(c.masked(lanes), source + byte, 1)
            result[:, :, byte][lanes] = loaded[lanes]
    return result.reshape(c.n, 32 * size)


def _publish(c: Cohort, target: Array, value: Array, size: int) -> None:
    """Write shared memory in the name of the row's copy agent."""
    machine = c.machine
    shared = machine.shared
    flat = shared.flatten(c, target, size)
    if machine.checks:
        position, granule = shared.races.spread(c, flat, size)
        rows = c.rows[position]
        shared.races.write(
            c,
            position,
            granule,
            agent=machine.copy_agent + machine.agent_of_row[rows],
            clock=machine.copy_group[rows],
            lane=shared.races.lanes(c, collective=False),
        )
    shared.put(c, flat, value, size)


def _commit(c: Cohort) -> None:
    machine = c.machine
    machine.copy_group[c.rows] += 1
    if machine.stats:
        for row in c.rows.tolist():
            machine.copy_bytes[row].append(0)


def _wait(c: Cohort, keep: int) -> None:
    """Make all groups but the `keep` newest visible to the row; -1: also uncommitted copies."""
    machine = c.machine
    rows = c.rows
    if keep < 0:
        machine.copy_group[rows] += 1
        keep = 0
    done = np.maximum(machine.copy_group[rows] - 1 - keep, 0)
    agent = machine.copy_agent + machine.agent_of_row[rows]
    if machine.checks:
        machine.shared.races.waited(rows, machine.clocks[rows, agent])
    machine.clocks[rows, agent] = np.maximum(machine.clocks[rows, agent], done)
    if machine.stats:
        for row in rows.tolist():
            groups = machine.copy_bytes[row]
            open_group = groups[-1] if keep >= 0 else 0
            pending = groups[:-1][len(groups) - 1 - keep :] if keep else []
            machine.copy_bytes[row] = [*pending, open_group]


def _mbarrier_arrive(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """cp.async.mbarrier.arrive{.noinc}: arrives when the lane's earlier copies are done."""
    if modifiers.take("arrive") is None:
        raise modifiers.unknown()
    context.features.add("mbarrier")
    context.shared(8)
    noinc = modifiers.take("noinc") is not None
    modifiers.drop("shared", "shared::cta")
    modifiers.type("b64")
    address = address_reader(operands(instruction, 1)[0], instruction)

    def run(c: Cohort) -> None:
        machine = c.machine
        flat = machine.shared.flatten(c, np.broadcast_to(address(c), (c.n, 32)), 8)
        for i, lane in np.argwhere(c.active()).tolist():
            barrier = machine.mbarriers.find(c, int(flat[i, lane]), i, lane)
            row = int(c.rows[i])
            if not noinc:
                barrier.pending += 1
            # The barrier publishes only the warp's copies, not its other accesses.
            agent = machine.copy_agent + int(machine.agent_of_row[row])
            clocks = barrier.clocks
            clocks[agent] = max(clocks[agent], machine.copy_group[row])
            machine.mbarriers.arrive(c, barrier, i, lane, 1, release=False)
        machine.copy_group[c.rows] += 1

    return Compiled("async-copy", run=run)
