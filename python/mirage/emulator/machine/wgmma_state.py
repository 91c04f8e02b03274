"""The registers that a wgmma in flight still uses, and those that changed since wgmma.fence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mirage.emulator.errors import MissingFenceError, MissingWaitError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine
    from mirage.emulator.ptx.syntax import Register


@dataclass(eq=False)
class RegisterState:
    """For each row: the last group that has the register as accumulator or as A, and the fence
    epoch in which another instruction last wrote it."""

    accumulator: Array
    operand: Array
    written: Array


class WgmmaState:
    """Groups are numbered from 1 for each warp; `current` is open, `done` waited for."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.current = np.ones(machine.warps, np.int64)
        self.done = np.zeros(machine.warps, np.int64)
        self.epoch = np.zeros(machine.warps, np.int64)
        self.pending = False

    def track(self, register: Register) -> RegisterState:
        """Return the state for a register that some wgmma names."""
        del register
        zeros = np.zeros(self.machine.warps, np.int64)
        return RegisterState(zeros, zeros.copy(), zeros.copy())

    def unfinished(self, register: Register, c: Cohort) -> Array | None:
        """Return the rows [n] whose register a wgmma in flight still writes; None if there are
        none."""
        state: RegisterState = register.async_state
        bad = state.accumulator[c.rows] > self.done[c.rows]
        return bad if any_of(bad) else None

    def note_write(self, register: Register, c: Cohort) -> None:
        """Record that another instruction writes the register."""
        state: RegisterState = register.async_state
        if self.pending and self.machine.checks:
            busy = np.maximum(state.accumulator[c.rows], state.operand[c.rows]) > self.done[c.rows]
            if any_of(busy):
                self.machine.fail(
                    MissingWaitError,
                    f"expected wgmma.wait_group before register {register.name} is overwritten: "
                    "a wgmma still uses it",
                    c,
                    busy[:, None] & c.active(),
                )
        state.written[c.rows] = self.epoch[c.rows]

    def issue(self, c: Cohort, accumulators: list[Register], operands: list[Register]) -> None:
        """Issue a wgmma by the cohort's rows: check the fence and mark its registers as busy."""
        self.pending = True
        current = self.current[c.rows]
        for register in [*accumulators, *operands]:
            state: RegisterState = register.async_state
            bad = state.written[c.rows] >= self.epoch[c.rows]
            in_flight = state.accumulator[c.rows] > self.done[c.rows]
            bad &= ~in_flight
            if any_of(bad) and self.machine.checks:
                self.machine.fail(
                    MissingFenceError,
                    f"expected wgmma.fence between the last write of register {register.name} and "
                    "this wgmma, got none",
                    c,
                    bad[:, None] & c.active(),
                )
        for register in accumulators:
            register.async_state.accumulator[c.rows] = current
        for register in operands:
            register.async_state.operand[c.rows] = current

    def fence(self, c: Cohort) -> None:
        """Execute wgmma.fence."""
        self.epoch[c.rows] += 1

    def commit(self, c: Cohort) -> None:
        """Execute wgmma.commit_group."""
        self.current[c.rows] += 1

    def wait(self, c: Cohort, keep: int) -> Array:
        """Execute wgmma.wait_group; return the last group that is done, [n]."""
        rows = c.rows
        self.done[rows] = np.maximum(self.done[rows], self.current[rows] - 1 - keep)
        self.pending = bool((self.current > self.done + 1).any())
        return self.done[rows]
