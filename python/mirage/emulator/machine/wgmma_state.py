"""The registers that a wgmma in flight still uses, and those that changed since wgmma.fence."""

from __future__ import annotations

from collections.abc import Sequence
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
    epoch in which another instruction last wrote it. The arrays are row `number` of those of all
    registers."""

    number: int
    accumulator: Array
    operand: Array
    written: Array


class WgmmaState:
    """Groups are numbered from 1 for each warp; `current` is open, `done` waited for."""

    def __init__(self, machine: Machine, registers: Sequence[Register]) -> None:
        """Track ``registers``, which are all that some wgmma names."""
        self.machine = machine
        self.current = np.ones(machine.warps, np.int64)
        self.done = np.zeros(machine.warps, np.int64)
        self.epoch = np.zeros(machine.warps, np.int64)
        self.pending = False
        all_of_them = np.zeros((3, len(registers), machine.warps), np.int64)
        self._accumulator, self._operand, self._written = all_of_them
        for number, register in enumerate(registers):
            register.async_state = RegisterState(number, *all_of_them[:, number])

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
        registers = [*accumulators, *operands]
        numbers = np.array([r.async_state.number for r in registers])[:, None]
        bad = self._written[numbers, c.rows] >= self.epoch[c.rows]
        bad &= self._accumulator[numbers, c.rows] <= self.done[c.rows]  # not in flight
        if any_of(bad) and self.machine.checks:
            first = int(np.argmax(bad.any(axis=1)))
            self.machine.fail(
                MissingFenceError,
                f"expected wgmma.fence between the last write of register {registers[first].name} "
                "and this wgmma, got none",
                c,
                bad[first][:, None] & c.active(),
            )
        current = self.current[c.rows]
        self._accumulator[numbers[: len(accumulators)], c.rows] = current
        self._operand[numbers[len(accumulators) :], c.rows] = current

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
