"""Branches, exit, traps, and instructions that only affect how a kernel is scheduled."""

from __future__ import annotations

import numpy as np

from mirage.emulator.errors import DeadlockError, MissingWaitError, OutOfBoundsError, TrapError
from mirage.emulator.launch_order import Waits
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import read_raw, reader
from mirage.emulator.ops.opcodes import (
    Compiled,
    Context,
    Modifiers,
    all_lanes,
    opcode,
    operands,
)
from mirage.emulator.ptx.syntax import Immediate, Instruction, LabelRef


def split(c: Cohort, instruction: Instruction) -> tuple[Array | None, Array | None]:
    """Return (lanes for which the guard holds, lanes for which it does not); None if there are no
    such lanes."""
    guard = instruction.guard
    if guard is None:
        return c.active(), None
    # A copy: masks outlive this instruction, and the predicate may change in place.
    value = read_raw(guard, c).copy()
    if instruction.guard_negated:
        value = ~value
    if c.mask is None:
        yes, no = value, ~value
    else:
        yes, no = value & c.mask, ~value & c.mask
    return (yes if any_of(yes) else None), (no if any_of(no) else None)


@opcode("bra")
def compile_bra(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Jump; lanes that disagree continue as two groups."""
    modifiers.drop("uni")
    (label,) = operands(instruction, 1)
    if not isinstance(label, LabelRef):
        raise modifiers.unknown()
    labels, name = context.kernel.labels, label.name

    def control(c: Cohort, pc: int) -> int | None:
        target = labels[name]
        scheduler = c.machine.scheduler
        polling = pc in c.machine.program.polling_loops
        yes, no = split(c, instruction)
        if no is None and not polling:
            return target
        if yes is None:
            return pc + 1
        if polling and c.machine.checks and pc in c.machine.program.plain_spins:
            c.machine.fail(
                DeadlockError,
                "expected ld.acquire, .relaxed or .volatile in a loop that waits for memory to "
                "change, got plain loads, which need never see the change; "
                f"{scheduler.situation_of(c, yes)}",
                c,
                yes,
            )
        if polling:
            scheduler.defer(target, c.rows, yes)
        else:
            scheduler.push(target, c.rows, yes)
        if no is not None:
            scheduler.push(pc + 1, c.rows, no)
        return None

    return Compiled("branch", control=control)


@opcode("brx")
def compile_brx(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Indexed jump through a .branchtargets list."""
    if modifiers.take("idx") is None or instruction.guard is not None:
        raise modifiers.unknown()
    modifiers.drop("uni")
    index, _ = operands(instruction, 2)
    read = reader(index, "u32", instruction)
    names, labels = instruction.jump_table, context.kernel.labels
    if not names:
        raise modifiers.unknown()

    def control(c: Cohort, pc: int) -> int | None:
        machine = c.machine
        value = np.broadcast_to(read(c), (c.n, 32)).astype(np.int64)
        active = c.active()
        bad = active & (value >= len(names))
        if any_of(bad):
            machine.fail(
                OutOfBoundsError,
                f"expected a branch index below {len(names)}, got {int(value[bad][0])}",
                c,
                bad,
            )
        for i, name in enumerate(names):
            machine.scheduler.push(labels[name], c.rows, active & (value == i))
        return None

    return Compiled("branch", control=control)


@opcode("exit", "ret")
def compile_exit(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """End the active lanes."""
    modifiers.drop("uni")
    operands(instruction, 0)

    def control(c: Cohort, pc: int) -> int | None:
        yes, no = split(c, instruction)
        if yes is not None:
            c.machine.scheduler.exit(c.masked(yes))
        if no is not None:
            c.machine.scheduler.push(pc + 1, c.rows, no)
        return None

    return Compiled("branch", control=control)


@opcode("trap", "brkpt")
def compile_trap(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Ends the launch with an error."""
    operands(instruction, 0)

    def run(c: Cohort) -> None:
        c.machine.fail(
            TrapError, f"expected the kernel not to {instruction.opcode}, but it does", c
        )

    return Compiled("branch", run=run)


@opcode("nanosleep", "pmevent")
def compile_nothing(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """No effect on results."""
    modifiers.drop("u32", "mask")
    operands(instruction, 1)
    return Compiled("other", run=lambda c: None, polls=instruction.opcode == "nanosleep")


@opcode("griddepcontrol")
def compile_dependency(
    context: Context, instruction: Instruction, modifiers: Modifiers
) -> Compiled:
    """Return at once in both forms, since the emulator runs one grid after another; `wait` is
    recorded, so that reads of a previous grid's results before it can be reported, and that later
    grids start before it."""
    form = modifiers.take("wait", "launch_dependents")
    if form is None:
        raise modifiers.unknown()
    operands(instruction, 0)

    def run(c: Cohort) -> None:
        waited = c.machine.waited[c.rows]
        if form == "wait":
            c.machine.waited[c.rows] = waited | c.active()
        elif c.machine.checks and c.machine.waits is Waits.FIRST and any_of(c.active() & ~waited):
            c.machine.fail(
                MissingWaitError,
                "expected griddepcontrol.wait before later grids start, as they rely on all "
                "grids before this one",
                c,
                c.active() & ~waited,
            )

    return Compiled("synchronise", run=run)


@opcode("setmaxnreg")
def compile_setmaxnreg(
    context: Context, instruction: Instruction, modifiers: Modifiers
) -> Compiled:
    """Moves registers between the warps of a block. An increase waits until enough are free."""
    change = modifiers.take("inc", "dec")
    if change is None or modifiers.take("sync") is None or modifiers.take("aligned") is None:
        raise modifiers.unknown()
    modifiers.type("u32")
    (amount,) = operands(instruction, 1)
    if not isinstance(amount, Immediate) or not isinstance(amount.value, int):
        raise modifiers.unknown()
    count = amount.value
    if not 24 <= count <= 256 or count % 8:
        raise OutOfBoundsError(
            f"expected a register count from 24 to 256 in steps of 8, got {count}",
            site=instruction.site,
        )
    _ = reader

    def control(c: Cohort, pc: int) -> int | None:
        machine = c.machine
        current = machine.registers_of_row[c.rows]
        wrong = current < count if change == "dec" else current > count
        if any_of(wrong):
            now = int(current[wrong][0])
            machine.fail(
                DeadlockError,
                f"expected setmaxnreg.{change} from {now} registers, got {count}",
                c,
                np.repeat(wrong[:, None], 32, axis=1),
            )
        return machine.change_registers(c, pc, count)

    return Compiled("synchronise", control=control, required=all_lanes)
