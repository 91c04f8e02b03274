"""The choice of what runs next: cohorts of warps at one instruction, lowest instruction first.

Running the lowest instruction first merges warps, and lanes of a warp, where their paths meet
again. A loop that polls memory (spin loop) is put aside at its backward branch until nothing else
can run, so that the warps it waits for make progress. Lanes that reach an instruction that their
whole warp has to execute together wait there for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mirage.emulator.errors import DeadlockError, DivergenceError, InstructionBudgetError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine

Group = tuple[Array, Array | None]
Parked = tuple[Array, Array | None, Array]
"""A group, and the lanes [n, 32] that execute the instruction together."""
_IDLE_ROUNDS = 200


@dataclass(eq=False)
class Waiting:
    """Rows that wait for something, identified by `kind` and `key`; `what` is for messages."""

    rows: Array
    mask: Array | None
    pc: int
    what: str | Callable[[], str]


class Scheduler:
    """Chooses what runs next; see the module's docstring."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.ready: dict[int, list[Group]] = {}
        self.deferred: list[tuple[int, Group]] = []
        self.converging: dict[int, list[Parked]] = {}
        self.grouping: dict[int, list[Group]] = {}
        self.blocked: list[Waiting] = []

    def push(self, pc: int, rows: Array, mask: Array | None) -> None:
        """Make rows ready to run at `pc`; rows without active lanes are dropped."""
        if mask is not None:
            if all_of(mask):
                mask = None
            else:
                some = mask.any(axis=1)
                if not all_of(some):
                    rows, mask = rows[some], mask[some]
        if len(rows):
            self.ready.setdefault(pc, []).append((rows, mask))

    def defer(self, pc: int, rows: Array, mask: Array | None) -> None:
        """Make rows ready to run at `pc`, but after everything else."""
        if mask is not None:
            some = mask.any(axis=1)
            rows, mask = rows[some], mask[some]
        if len(rows):
            self.deferred.append((pc, (rows, mask)))

    def block(self, pc: int, c: Cohort, what: str | Callable[[], str]) -> Waiting:
        """Put a cohort to sleep until `wake` is called with the result."""
        waiting = Waiting(c.rows, c.mask, pc, what)
        self.blocked.append(waiting)
        return waiting

    def wake(self, waiting: Waiting) -> None:
        """Make a sleeping cohort ready."""
        self.blocked.remove(waiting)
        self.push(waiting.pc, waiting.rows, waiting.mask)

    def merge(self, groups: list[Group]) -> Cohort:
        """Merge several groups into one cohort; masks of the same row are united."""
        machine = self.machine
        if len(groups) == 1:
            return Cohort(machine, *groups[0])
        rows = np.concatenate([g[0] for g in groups])
        masks = [np.ones((len(g[0]), 32), bool) if g[1] is None else g[1] for g in groups]
        mask = np.concatenate(masks)
        order, inverse = np.unique(rows, return_inverse=True)
        if len(order) == len(rows):
            sort = np.argsort(rows)
            rows, mask = rows[sort], mask[sort]
        else:
            united = np.zeros((len(order), 32), bool)
            np.logical_or.at(united, inverse, mask)
            rows, mask = order, united
        return Cohort(machine, rows, None if all_of(mask) else mask)

    # -- convergence ----------------------------------------------------------------------------

    def converge(self, c: Cohort, pc: int, required: Array) -> Cohort | None:
        """Gather the lanes at an instruction that the lanes `required` [n, 32] execute together.
        Return the rows that are complete; the others wait here."""
        parked = self.converging.pop(pc, None)
        if parked is not None:
            full = np.zeros((self.machine.warps, 32), bool)
            for rows, _, wanted in [*parked, (c.rows, c.mask, required)]:
                full[rows] |= wanted
            c = self.merge([*((rows, mask) for rows, mask, _ in parked), (c.rows, c.mask)])
            required = full[c.rows] | c.active()
        complete = ~(required & ~c.active()).any(axis=1)
        if all_of(complete):
            return c
        rest = c.keep(~complete)
        parked = (rest.rows, rest.mask, required[~complete])
        self.converging.setdefault(pc, []).append(parked)
        return c.keep(complete) if any_of(complete) else None

    def gather_groups(self, c: Cohort, pc: int) -> Cohort | None:
        """Gather whole warpgroups at a wgmma; other warps wait here for the rest of their group."""
        parked = self.grouping.pop(pc, None)
        if parked is not None:
            c = self.merge([*parked, (c.rows, c.mask)])
        machine = self.machine
        first = c.rows - machine.warp_of_row[c.rows] % 4
        starts, counts = np.unique(first, return_counts=True)
        whole = np.isin(first, starts[counts == 4])
        if all_of(whole):
            return c
        rest = c.keep(~whole)
        self.grouping.setdefault(pc, []).append((rest.rows, rest.mask))
        return c.keep(whole) if any_of(whole) else None

    # -- the loop -------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until all lanes have exited. Raises an error for a deadlock, divergence or an
        exhausted budget."""
        machine = self.machine
        mask = None if all_of(machine.valid) else machine.valid.copy()
        self.push(0, np.arange(machine.warps), mask)
        program = machine.program
        idle, events = 0, -1
        while True:
            if not self.ready:
                if self.deferred:
                    idle = idle + 1 if machine.events == events else 0
                    events = machine.events
                    if idle > _IDLE_ROUNDS:
                        self._fail_stuck()
                    for pc, group in self.deferred:
                        self.ready.setdefault(pc, []).append(group)
                    self.deferred = []
                elif machine.mbarriers.time_out():
                    continue
                elif any_of(machine.live):
                    self._fail_stuck()
                else:
                    return
            pc = min(self.ready)
            program.execute(machine, self.merge(self.ready.pop(pc)), pc)

    def exit(self, c: Cohort) -> None:
        """End the active lanes."""
        live = self.machine.live
        live[c.rows] &= ~c.active()
        self.machine.events += 1

    # -- reports --------------------------------------------------------------------------------

    def _lanes(self, rows: Array, mask: Array | None, limit: int = 4) -> str:
        names: list[str] = []
        for i, row in enumerate(rows[:limit]):
            lanes = "" if mask is None or mask[i].all() else f" lanes {_ranges(mask[i])}"
            names.append(f"{self.machine.thread(int(row))}{lanes}")
        more = f" and {len(rows) - limit} more warps" if len(rows) > limit else ""
        return ", ".join(names) + more

    def situation_of(self, c: Cohort, mask: Array | None) -> str:
        """Describe the lanes at the current instruction."""
        where = self.machine.site_of(self.machine.step_index)
        return f"{self._lanes(c.rows, mask)}: waiting at {where}"

    def situation(self) -> str:
        """Describe what each group of lanes waits for, one per line."""
        machine = self.machine
        lines = [
            f"{self._lanes(w.rows, w.mask)}: {w.what if isinstance(w.what, str) else w.what()}"
            for w in self.blocked
        ]
        lines += [
            f"{self._lanes(c.rows, c.mask)}: {count} registers for setmaxnreg at "
            f"{machine.site_of(pc)}"
            for c, pc, count in machine.register_waits
        ]
        for pc, parked in self.converging.items():
            lines += [
                f"{self._lanes(rows, mask)}: for the other lanes of the warp at "
                f"{machine.site_of(pc)}"
                for rows, mask, _ in parked
            ]
        for pc, groups in self.grouping.items():
            lines += [
                f"{self._lanes(*g)}: for the other warps of the warpgroup at {machine.site_of(pc)}"
                for g in groups
            ]
        lines += [
            f"{self._lanes(*g)}: polling memory at {machine.site_of(pc)}" for pc, g in self.deferred
        ]
        lines += [
            f"{self._lanes(*g)}: running at {machine.site_of(pc)}"
            for pc, groups in self.ready.items()
            for g in groups
        ]
        exited = machine.valid & ~machine.live
        if any_of(exited):
            rows = np.nonzero(exited.any(axis=1))[0]
            lines.append(f"{self._lanes(rows, exited[rows])}: exited")
        return "\n".join("  " + line for line in lines)

    def _fail_stuck(self) -> None:
        machine = self.machine
        for pc, groups in [*self.converging.items(), *self.grouping.items()]:
            machine.step_index = pc
            rows, mask = groups[0][:2]
            raise DivergenceError(
                "expected all lanes of the warp (or warps of the warpgroup) to execute this "
                "instruction together, but some "
                f"never get here:\n{self.situation()}",
                site=machine.program.kernel.body[pc].site,
                thread=machine.thread(int(rows[0]), _first(mask)),
            )
        if not self.deferred:
            machine.barriers.check_divergence()
        total = machine.grid[0] * machine.grid[1] * machine.grid[2]
        hint = ""
        if machine.blocks < total and self.deferred:
            hint = (
                f"\n  only {machine.blocks} of {total} blocks are resident; blocks that wait for "
                "each other need Limits(max_resident_bytes=...) large enough for all"
            )
        raise DeadlockError(f"expected progress, but every warp waits:\n{self.situation()}{hint}")

    def fail_budget(self, pc: int, c: Cohort) -> None:
        """Raise the error for an exhausted instruction budget."""
        machine = self.machine
        self.push(pc, c.rows, c.mask)
        raise InstructionBudgetError(
            f"expected the launch to end within {machine.limits.max_instructions} "
            f"warp-instructions, but it still runs:\n{self.situation()}",
            site=machine.program.kernel.body[pc].site,
        )


def _first(mask: Array | None) -> int | None:
    return None if mask is None else int(np.argmax(mask[0]))


def _ranges(mask: Array) -> str:
    lanes = np.nonzero(mask)[0].tolist()
    parts: list[str] = []
    start = previous = lanes[0]
    for lane in [*lanes[1:], None]:
        if lane is not None and lane == previous + 1:
            previous = lane
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        if lane is not None:
            start = previous = lane
    return ",".join(parts)
