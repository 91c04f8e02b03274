"""mbarrier instructions. A lane's state token is the number of the phase it arrived in."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.emulator.errors import MbarrierError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of
from mirage.emulator.machine.operands import Reader, Writer, address_reader, reader, writer
from mirage.emulator.ops.control import split
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, opcode, operands
from mirage.emulator.ptx.syntax import Address, Instruction, Sink

SPACES = ("shared", "shared::cta", "shared::cluster")
MAX_BYTES = (1 << 20) - 1


@opcode("mbarrier")
def compile_mbarrier(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """init, inval, arrive, arrive_drop, expect_tx, complete_tx, test_wait, try_wait."""
    context.features.add("mbarrier")
    context.shared(8)
    form = modifiers.take(
        "init",
        "inval",
        "arrive",
        "arrive_drop",
        "expect_tx",
        "complete_tx",
        "test_wait",
        "try_wait",
    )
    order = modifiers.take("release", "relaxed", "acquire")
    modifiers.drop("cta", "cluster")
    if modifiers.take(*SPACES) is None:
        raise modifiers.unknown()
    modifiers.type("b64")
    if form in ("init", "inval"):
        return _init(instruction, form)
    if form in ("test_wait", "try_wait"):
        return _wait(instruction, modifiers, form, acquire=order != "relaxed")
    if form in ("expect_tx", "complete_tx"):
        return _bytes(instruction, form)
    if form in ("arrive", "arrive_drop"):
        return _arrive(instruction, modifiers, form, release=order != "relaxed")
    raise modifiers.unknown()


def _flat(c: Cohort, address: Reader) -> Array:
    return c.machine.shared.flatten(c, np.broadcast_to(address(c), (c.n, 32)), 8)


def _init(instruction: Instruction, form: str) -> Compiled:
    ops = operands(instruction, 2 if form == "init" else 1)
    address = address_reader(ops[0], instruction)
    if form == "inval":
        return Compiled(
            "mbarrier", run=lambda c: c.machine.mbarriers.invalidate(c, _flat(c, address))
        )
    count = reader(ops[1], "u32", instruction)

    def run(c: Cohort) -> None:
        machine = c.machine
        flat = _flat(c, address)
        if machine.checks:
            races = machine.shared.races
            races.write(c, *races.spread(c, flat, 8))
        machine.mbarriers.init(c, flat, np.broadcast_to(count(c), (c.n, 32)))

    return Compiled("mbarrier", run=run)


def _amounts(c: Cohort, read: Reader, what: str) -> Array:
    value = np.broadcast_to(read(c), (c.n, 32)).astype(np.int64)
    bad = (value > MAX_BYTES) & c.active()
    if any_of(bad):
        c.machine.fail(
            MbarrierError,
            f"expected a {what} of at most {MAX_BYTES}, got {int(value[bad][0])}",
            c,
            bad,
        )
    return value


def _bytes(instruction: Instruction, form: str) -> Compiled:
    ops = operands(instruction, 2)
    address = address_reader(ops[0], instruction)
    amount = reader(ops[1], "u32", instruction)

    def run(c: Cohort) -> None:
        flat, value = _flat(c, address), _amounts(c, amount, "transaction count")
        for i, lane in np.argwhere(c.active()).tolist():
            barrier = c.machine.mbarriers.find(c, int(flat[i, lane]), i, lane)
            if form == "expect_tx":
                c.machine.mbarriers.expect(barrier, int(value[i, lane]))
            else:
                c.machine.mbarriers.complete_bytes(
                    barrier, int(value[i, lane]), c.machine.thread(c.rows[i], lane)
                )

    return Compiled("mbarrier", run=run)


def _arrive(
    instruction: Instruction, modifiers: Modifiers, form: str, *, release: bool
) -> Compiled:
    expects = modifiers.take("expect_tx") is not None
    modifiers.drop("noComplete")
    ops = list(operands(instruction, 1, 3))
    target: Any = ops.pop(0) if not isinstance(ops[0], Address) else Sink()
    write: Writer = writer(target, "b64", instruction)
    address = address_reader(ops[0], instruction)
    amount = reader(ops[1], "u32", instruction) if len(ops) > 1 else None
    if expects and amount is None:
        raise modifiers.unknown()
    drop = form == "arrive_drop"

    def run(c: Cohort) -> None:
        machine = c.machine
        flat = _flat(c, address)
        token = np.zeros((c.n, 32), np.uint64)
        value = None if amount is None else _amounts(c, amount, "count")
        for i, lane in np.argwhere(c.active()).tolist():
            barrier = machine.mbarriers.find(c, int(flat[i, lane]), i, lane)
            count = 1
            if value is not None:
                if expects:
                    machine.mbarriers.expect(barrier, int(value[i, lane]))
                else:
                    count = int(value[i, lane])
            if drop:
                barrier.count -= count
            token[i, lane] = machine.mbarriers.arrive(c, barrier, i, lane, count, release=release)
        if machine.checks and release:
            machine.bump(c.rows)
        write(c, token)

    return Compiled("mbarrier", run=run)


def _guarded(c: Cohort, pc: int, instruction: Instruction) -> Cohort | None:
    """Return the lanes for which the guard holds; the others continue."""
    if instruction.guard is None:
        return c
    yes, no = split(c, instruction)
    if no is not None:
        c.machine.scheduler.push(pc + 1, c.rows, no)
    if yes is None:
        return None
    return c.masked(None if all_of(yes) else yes).keep(yes.any(axis=1))


def _acquire(c: Cohort, success: Array, flat: Array) -> None:
    """Make writes before the phases for which rows have waited visible to these rows."""
    mbarriers = c.machine.mbarriers
    for i in np.nonzero(success.any(axis=1))[0].tolist():
        for where in set(flat[i][success[i]].tolist()):
            mbarriers.acquire(mbarriers.table[where], int(c.rows[i]))


def _sleep(c: Cohort, pc: int, done: Array, flat: Array) -> Array:
    """Return the rows [n] that continue to wait: those with a lane whose phase is not complete,
    unless their wait has timed out. They sleep until it is complete."""
    machine = c.machine
    late: Array = (~done & c.active()).any(axis=1) & ~machine.mbarriers.expired[c.rows]
    machine.mbarriers.expired[c.rows] = False
    for i in np.nonzero(late)[0].tolist():
        keep = np.zeros(c.n, bool)
        keep[i] = True
        sleeping = flat[i][~done[i] & c.active()[i]]
        machine.mbarriers.sleep(c.keep(keep), pc, np.unique(sleeping).tolist())
    return late


def _wait(instruction: Instruction, modifiers: Modifiers, form: str, *, acquire: bool) -> Compiled:
    """Execute a wait: test_wait answers at once; try_wait sleeps until the phase completes, and
    answers false only if nothing else in the launch can run."""
    parity = modifiers.take("parity") is not None
    ops = operands(instruction, 3, 4)
    write = writer(ops[0], "pred", instruction)
    address = address_reader(ops[1], instruction)
    expected = reader(ops[2], "u32" if parity else "b64", instruction)

    def outcome(c: Cohort) -> tuple[Array, Array]:
        """(done [n, 32], byte indices [n, 32])"""
        machine = c.machine
        flat = _flat(c, address)
        want = np.broadcast_to(expected(c), (c.n, 32)).astype(np.int64)
        done = np.ones((c.n, 32), bool)
        active = c.active()
        for where in np.unique(flat[active]).tolist():
            lanes = active & (flat == where)
            rows = np.nonzero(lanes.any(axis=1))[0].tolist()
            for i in rows:
                barrier = machine.mbarriers.find(c, where, i, int(np.argmax(lanes[i])))
            phase = barrier.phase  # type: ignore[possibly-undefined]
            if parity and ((want[lanes] & ~1) != 0).any():
                machine.fail(MbarrierError, "expected a phase parity of 0 or 1, got more", c, lanes)
            done[lanes] = (phase & 1) != want[lanes] if parity else phase > want[lanes]
        return done, flat

    def finish(c: Cohort, done: Array, flat: Array) -> None:
        if acquire:
            _acquire(c, done & c.active(), flat)
        write(c, done.copy())

    def test(c: Cohort) -> None:
        finish(c, *outcome(c))

    if form == "test_wait":
        return Compiled("mbarrier", run=test, polls=True)

    def control(c: Cohort, pc: int) -> int | None:
        machine = c.machine
        waiting = _guarded(c, pc, instruction)
        if waiting is None:
            return None
        c = waiting
        done, flat = outcome(c)
        late = _sleep(c, pc, done, flat)
        if any_of(late):
            if all_of(late):
                return None
            go = ~late
            c, done, flat = c.keep(go), done[go], flat[go]
        machine.note(mbarrier_waits=c.n)
        finish(c, done, flat)
        if instruction.guard is None and not any_of(late):
            return pc + 1
        machine.scheduler.push(pc + 1, c.rows, c.mask)
        return None

    return Compiled("mbarrier", control=control)
