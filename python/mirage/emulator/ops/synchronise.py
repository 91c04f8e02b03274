"""bar, barrier, barrier.cluster, bar.warp, membar, fence, mapa, getctarank."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.emulator.errors import DivergenceError, OutOfBoundsError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.memory import RANK_SHIFT, SHARED_WINDOW
from mirage.emulator.machine.operands import Reader, read_raw, reader, writer
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, all_lanes, opcode, operands
from mirage.emulator.ops.warp import members
from mirage.emulator.ptx.syntax import Instruction, Operand, Register


def _uniform(c: Cohort, read: Reader, what: str) -> Array:
    """Return the operand's value in each row [n]; it must not differ between active lanes."""
    value = np.broadcast_to(read(c), (c.n, 32))
    active = c.active()
    first = value[np.arange(c.n), np.argmax(active, axis=1)]
    bad = active & (value != first[:, None])
    if any_of(bad):
        c.machine.fail(
            DivergenceError, f"expected one {what} for the whole warp, got several", c, bad
        )
    return first.astype(np.int64)


def _reduction(
    instruction: Instruction, modifiers: Modifiers, ops: list[Operand]
) -> tuple[str, Register, Reader]:
    """Return how a `bar.red` combines votes, where its result goes, and the votes; their operands
    are taken from ``ops``."""
    kind = modifiers.type("u32", "pred")
    combine = modifiers.take("popc", "and", "or") or ""
    if not combine or (kind == "u32") != (combine == "popc") or len(ops) < 3:
        raise modifiers.unknown()
    target = ops.pop(0)
    if not isinstance(target, Register):
        raise modifiers.unknown()
    instruction.defs.append(target)
    return combine, target, reader(ops.pop(), "pred", instruction)


@opcode("bar", "barrier")
def compile_bar(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Block-wide barriers, bar.warp.sync, and barrier.cluster."""
    if modifiers.take("cluster") is not None:
        return _cluster(instruction, modifiers)
    if modifiers.take("warp") is not None:
        return _warp(instruction, modifiers)
    modifiers.drop("cta")
    aligned = modifiers.take("aligned") is not None or instruction.opcode == "bar"
    form = modifiers.take("sync", "arrive", "red")
    if form is None:
        raise modifiers.unknown()
    combine, ops = "", list(operands(instruction, 1, 4))
    result: Register | None = None
    vote: Reader | None = None
    if form == "red":
        combine, result, vote = _reduction(instruction, modifiers, ops)
    if len(ops) > 2 or (form == "arrive" and len(ops) != 2):
        raise modifiers.unknown()
    number = reader(ops[0], "u32", instruction)
    count = reader(ops[1], "u32", instruction) if len(ops) == 2 else None
    guard = instruction.guard

    def control(c: Cohort, pc: int) -> int | None:
        machine = c.machine
        if guard is not None:
            chosen = _guarded_rows(c, instruction, aligned=aligned)
            others = ~chosen
            if any_of(others):
                rest = c.keep(others)
                machine.scheduler.push(pc + 1, rest.rows, rest.mask)
                if not any_of(chosen):
                    return None
                c = c.keep(chosen)
        numbers = _uniform(c, number, "barrier number")
        if ((numbers < 0) | (numbers > 15)).any():
            machine.fail(
                OutOfBoundsError, f"expected a barrier number from 0 to 15, got {numbers.max()}", c
            )
        counts = None if count is None else _uniform(c, count, "thread count")
        votes = None if vote is None else np.broadcast_to(vote(c), (c.n, 32))
        for value in np.unique(numbers).tolist():
            these = numbers == value
            machine.barriers.arrive(
                c.keep(these),
                pc,
                value,
                None if counts is None else counts[these],
                wait=form != "arrive",
                vote=None if votes is None else votes[these],
                result=result,
                combine=combine,
            )
        return None

    return Compiled("synchronise", control=control, required=all_lanes if aligned else None)


def _warp(instruction: Instruction, modifiers: Modifiers) -> Compiled:
    if modifiers.take("sync") is None:
        raise modifiers.unknown()
    (mask,) = operands(instruction, 1)

    def run(c: Cohort) -> None:
        if c.machine.checks:
            c.machine.bump(c.rows)

    return Compiled("synchronise", run=run, required=members(mask, instruction))


def _guarded_rows(c: Cohort, instruction: Instruction, *, aligned: bool) -> Array:
    """Return the rows [n] in which the guard holds; all active lanes must agree."""
    assert instruction.guard is not None
    value = read_raw(instruction.guard, c)
    if instruction.guard_negated:
        value = ~value
    active = c.active()
    some: Any = (value & active).any(axis=1)
    every: Any = (value | ~active).all(axis=1)
    torn = some & ~every
    if any_of(torn):
        c.machine.fail(
            DivergenceError,
            "expected the guard of a barrier to be the same in all lanes of the warp, "
            "but it differs",
            c,
            torn[:, None] & active & value,
        )
    return some


def _cluster(instruction: Instruction, modifiers: Modifiers) -> Compiled:
    form = modifiers.take("arrive", "wait")
    aligned = modifiers.take("aligned") is not None
    order = modifiers.take("release", "relaxed", "acquire")
    operands(instruction, 0)
    if instruction.guard is not None or form is None or (form == "wait" and order == "release"):
        raise modifiers.unknown()
    required = all_lanes if aligned else None
    if form == "arrive":

        def run(c: Cohort) -> None:
            c.machine.cluster_barriers.arrive(c, release=order != "relaxed")

        return Compiled("synchronise", run=run, required=required)

    def control(c: Cohort, pc: int) -> int | None:
        c.machine.cluster_barriers.wait(c, pc, acquire=order != "relaxed")
        return None

    return Compiled("synchronise", control=control, required=required)


@opcode("membar", "fence")
def compile_fence(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Fences of gpu scope make relaxed accesses to global memory acquire (before) and release
    (after); proxy fences make earlier writes visible to asynchronous copies and wgmma."""
    operands(instruction, 0, 2)
    proxy = any(m.startswith("proxy") or m in ("async", "async::generic") for m in modifiers.rest)
    asynchronous = any(m.startswith("async") for m in modifiers.rest)
    init = "mbarrier_init" in modifiers.rest
    modifiers.drop(
        "proxy", "alias", "async", "async::generic", "mbarrier_init", "tensormap::generic"
    )
    wide = not proxy and not init and any(s in modifiers.rest for s in ("gpu", "sys", "gl"))
    modifiers.drop("sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl")
    modifiers.drop("global", "shared::cta", "shared::cluster", "sync_restrict::shared::cluster")

    def run(c: Cohort) -> None:
        machine = c.machine
        if not machine.checks:
            return
        if wide:
            machine.memory.order.releases.fence(c)
        if proxy and asynchronous:
            rows, agents = c.rows, machine.agents
            clocks = machine.clocks[rows]
            clocks[:, agents:] = np.maximum(clocks[:, agents:], clocks[:, :agents])
            machine.clocks[rows] = clocks
            machine.bump(rows)
        if init or (proxy and asynchronous):
            machine.mbarriers.fence_init(c.rows)

    return Compiled("synchronise", run=run)


def _plain(operand: Operand, instruction: Instruction, size: int) -> Reader:
    read = reader(operand, f"b{8 * size}", instruction)
    return lambda c: read(c).astype(np.int64)


@opcode("mapa")
def compile_mapa(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """The address of the same shared location in another block of the cluster."""
    kind = modifiers.type("u32", "u64")
    space = modifiers.take("shared::cluster")
    ops = operands(instruction, 3)
    size = 4 if kind == "u32" else 8
    write = writer(ops[0], f"b{8 * size}", instruction)
    address = _plain(ops[1], instruction, size)
    rank = reader(ops[2], "u32", instruction)

    def run(c: Cohort) -> None:
        target = rank(c).astype(np.int64)
        blocks = c.machine.cluster_blocks
        bad = np.broadcast_to(target >= blocks, (c.n, 32)) & c.active()
        if any_of(bad):
            c.machine.fail(
                OutOfBoundsError,
                f"expected a block rank below {blocks}, got {int(target.max())}",
                c,
                bad,
            )
        base = 0 if space else SHARED_WINDOW
        offset = (address(c) - base) & ((1 << RANK_SHIFT) - 1)
        result = base + offset + ((target + 1) << RANK_SHIFT)
        write(c, result.astype(f"u{size}"))

    return Compiled("integer", run=run)


@opcode("getctarank")
def compile_getctarank(
    context: Context, instruction: Instruction, modifiers: Modifiers
) -> Compiled:
    """The rank of the block that a cluster address belongs to."""
    kind = modifiers.type("u32", "u64")
    space = modifiers.take("shared::cluster")
    ops = operands(instruction, 2)
    write = writer(ops[0], "b32", instruction)
    address = _plain(ops[1], instruction, 4 if kind == "u32" else 8)

    def run(c: Cohort) -> None:
        own = c.machine.block_of_row[c.rows][:, None] % c.machine.cluster_blocks
        rank = ((address(c) - (0 if space else SHARED_WINDOW)) >> RANK_SHIFT) - 1
        write(c, np.where(rank < 0, own, rank).astype(np.uint32))

    return Compiled("integer", run=run)
