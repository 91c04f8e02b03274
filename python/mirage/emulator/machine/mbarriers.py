"""The mbarrier objects: phases, pending arrivals, transaction bytes, and the order that they
establish."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from mirage.emulator.errors import (
    EmulatorError,
    MbarrierError,
    MissingFenceError,
    RaceError,
    Thread,
)
from mirage.emulator.machine.barriers import widen
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.memory import SHARED_RESERVED
from mirage.emulator.machine.scheduler import Waiting

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine

MAX_COUNT = (1 << 20) - 1


class Mbarrier:
    """One mbarrier. `phase` counts completed phases; `clocks` collects the clocks that arrivals of
    the current phase publish, and `done` are those of the last completed phase."""

    def __init__(self, machine: Machine, flat: int, count: int, row: int, agent: int) -> None:
        self.flat = flat
        self.count = count
        self.pending = count
        self.bytes = 0
        self.touched = False
        self.phase = 0
        self.agent = agent
        self.init_row = row
        self.init_clock = int(machine.clocks[row, machine.agent_of_row[row]])
        self.fenced = False
        self.clocks = np.zeros(2 * machine.agents, np.int32)
        self.done = np.zeros(2 * machine.agents, np.int32)
        self.in_flight = 0
        # The last copy that completes here.
        self.copied_by: Thread | None = None
        self.copied_at = 0


class Mbarriers:
    """All mbarriers of the resident blocks, by byte index in shared memory."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.table: dict[int, Mbarrier] = {}
        self.waiting: list[tuple[Waiting, list[int]]] = []
        self._next_agent = [machine.mbarrier_agent] * (machine.blocks // machine.cluster_blocks)
        self._agents: dict[tuple[int, int], int] = {}
        self._timed_out_at = -1
        self.expired = np.zeros(machine.warps, bool)
        # For each block, the clock at which each warp of its cluster last used one of its
        # mbarriers, the instruction, and the mbarrier.
        self._used_at = np.zeros((machine.blocks, machine.domain_warps), np.int32)
        self._used_by, self._used = self._used_at.copy(), self._used_at.copy()

    def grow_agents(self, before: int, after: int) -> None:
        """Widen the clock vectors."""
        for barrier in self.table.values():
            barrier.clocks = widen(barrier.clocks, before, after)
            barrier.done = widen(barrier.done, before, after)

    def agent_name(self, domain: int, agent: int) -> str:
        """Describe the copies that complete on a barrier."""
        for (where, number), flat in self._agents.items():
            if (where, number) == (int(domain), agent):
                return f"bulk copies that complete on {self.name(flat)}"
        return f"agent {agent}"

    def name(self, flat: int) -> str:
        """Describe the mbarrier at a byte index."""
        block, offset = divmod(flat, self.machine.shared.stride)
        return (
            f"the mbarrier at {offset:#x} ({offset - SHARED_RESERVED} bytes into shared memory of "
            f"block {self.machine.block_coordinates(block)})"
        )

    def init(self, c: Cohort, flat: Array, count: Array) -> None:
        """Execute mbarrier.init for the active lanes; flat and count are [n, 32]."""
        machine = self.machine
        for i, lane in np.argwhere(c.active()).tolist():
            where, arrivals = int(flat[i, lane]), int(count[i, lane])
            if not 1 <= arrivals <= MAX_COUNT:
                self._fail(
                    MbarrierError,
                    f"expected an arrival count from 1 to {MAX_COUNT}, got {arrivals}",
                    c,
                    i,
                    lane,
                    where,
                )
            row = int(c.rows[i])
            domain = int(machine.domain_of_row[row])
            old = self.table.get(where)
            if old is not None:
                agent = old.agent
            else:
                agent = self._next_agent[domain]
                self._next_agent[domain] += 1
                if agent >= machine.agents:
                    machine.grow_agents(machine.agents + 8 * machine.cluster_blocks)
            self._agents[(domain, agent)] = where
            barrier = Mbarrier(machine, where, arrivals, row, agent)
            barrier.phase = 0 if old is None else old.phase + 2 + old.phase % 2
            self.table[where] = barrier
        machine.events += 1

    def invalidate(self, c: Cohort, flat: Array) -> None:
        """Execute mbarrier.inval: the memory may be used for other purposes."""
        for i, lane in np.argwhere(c.active()).tolist():
            barrier = self.find(c, int(flat[i, lane]), i, lane)
            barrier.count = 0

    def fence_init(self, rows: Array) -> None:
        """Execute fence.mbarrier_init or fence.proxy.async: inits by these rows become visible to
        copies."""
        chosen = set(rows.tolist())
        for barrier in self.table.values():
            if barrier.init_row in chosen:
                barrier.fenced = True

    def find(self, c: Cohort, flat: int, i: int, lane: int, *, proxy: bool = False) -> Mbarrier:
        """Return the initialised barrier at a byte index, visible to row i of the cohort."""
        machine = self.machine
        barrier = self.table.get(flat)
        if barrier is None or barrier.count == 0:
            self._fail(
                MbarrierError,
                f"expected mbarrier.init before this instruction at {self.name(flat)}, got none",
                c,
                i,
                lane,
                flat,
            )
        if machine.checks:
            row = int(c.rows[i])
            if machine.cluster_blocks > 1 and not proxy:
                self._note_use(row, flat)
            seen = machine.clocks[row, machine.agent_of_row[barrier.init_row]]
            if seen < barrier.init_clock:
                self._fail(
                    RaceError,
                    "expected a barrier between mbarrier.init by "
                    f"{machine.thread(barrier.init_row)} "
                    f"and this use of {self.name(flat)}",
                    c,
                    i,
                    lane,
                    flat,
                )
            if proxy and not barrier.fenced:
                self._fail(
                    MissingFenceError,
                    "expected fence.mbarrier_init or fence.proxy.async between mbarrier.init and "
                    f"this copy, which completes on {self.name(flat)}",
                    c,
                    i,
                    lane,
                    flat,
                )
        return barrier

    def _note_use(self, row: int, flat: int) -> None:
        machine = self.machine
        at = flat // machine.shared.stride, machine.agent_of_row[row]
        self._used_at[at] = machine.clocks[row, at[1]]
        self._used_by[at], self._used[at] = machine.step_index, flat % machine.shared.stride

    def require_no_remote_use(self) -> None:
        """Check, when all threads have ended, that every use of an mbarrier by another block of the
        cluster is ordered before the end of its block; otherwise it may come too late."""
        machine = self.machine
        per, cluster = machine.warps_per_block, machine.cluster_blocks
        for block in range(machine.blocks):
            rank = block % cluster
            seen = machine.clocks[block * per : (block + 1) * per].max(axis=0)
            late = self._used_at[block] > seen[: machine.domain_warps]
            late[rank * per : (rank + 1) * per] = False
            if any_of(late):
                agent = int(np.argmax(late))
                row = (block - rank) * per + agent
                raise RaceError(
                    f"expected a cluster barrier between the last use of an mbarrier of block "
                    f"{machine.block_coordinates(block)} by another block and the exit of that "
                    "block",
                    site=machine.program.kernel.body[int(self._used_by[block, agent])].site,
                    thread=machine.thread(row),
                    address=int(self._used[block, agent]),
                )

    def _fail(
        self, error: type[EmulatorError], message: str, c: Cohort, i: int, lane: int, flat: int
    ) -> NoReturn:
        machine = self.machine
        address = np.full((c.n, 32), flat % machine.shared.stride)
        machine.fail(error, message, c, _one(c, i, lane), address)

    # -- changes --------------------------------------------------------------------------------

    def arrive(
        self, c: Cohort, barrier: Mbarrier, i: int, lane: int, count: int, *, release: bool = True
    ) -> int:
        """Record `count` arrivals by a lane; return the phase before them."""
        machine = self.machine
        phase = barrier.phase
        if count < 1 or count > barrier.pending:
            self._fail(
                MbarrierError,
                f"expected at most {barrier.pending} pending arrivals in this phase of "
                f"{self.name(barrier.flat)} (its count is {barrier.count}), got {count} more",
                c,
                i,
                lane,
                barrier.flat,
            )
        if machine.checks and release:
            clocks = barrier.clocks
            np.maximum(clocks, machine.clocks[int(c.rows[i])], out=clocks)
        barrier.pending -= count
        self._settle(barrier)
        return phase

    def expect(self, barrier: Mbarrier, amount: int) -> None:
        """Execute expect_tx: the current phase waits for more bytes."""
        barrier.bytes += amount
        barrier.touched = True

    def complete_bytes(self, barrier: Mbarrier, amount: int, thread: Thread) -> None:
        """Record that a copy by `thread` wrote bytes. They may precede the expect_tx of the same
        phase."""
        machine = self.machine
        if barrier.agent < machine.agents:
            clocks = barrier.clocks
            clocks[barrier.agent] = barrier.phase + 1
        barrier.bytes -= amount
        barrier.touched = True
        barrier.in_flight += amount
        barrier.copied_by = thread
        barrier.copied_at = machine.step_index
        self._settle(barrier)

    def _settle(self, barrier: Mbarrier) -> None:
        machine = self.machine
        machine.events += 1
        if barrier.pending or barrier.bytes:
            return
        barrier.phase += 1
        barrier.pending = barrier.count
        barrier.touched = False
        barrier.done = barrier.clocks
        barrier.clocks = np.zeros(2 * machine.agents, np.int32)
        waiting, self.waiting = self.waiting, []
        for entry, flats in waiting:
            if barrier.flat in flats:
                machine.scheduler.wake(entry)
            else:
                self.waiting.append((entry, flats))

    def acquire(self, barrier: Mbarrier, row: int) -> None:
        """Record a successful wait by a row."""
        clocks = self.machine.clocks[row]
        np.maximum(clocks, barrier.done, out=clocks)
        barrier.in_flight = 0

    def time_out(self) -> bool:
        """Let waits return false, as the hardware does after a while, if nothing else can run.
        Return True if that woke a row, and False if nothing has happened since the last attempt."""
        machine = self.machine
        if not self.waiting or self._timed_out_at == machine.events:
            return False
        self._timed_out_at = machine.events
        waiting, self.waiting = self.waiting, []
        for entry, _ in waiting:
            self.expired[entry.rows] = True
            machine.scheduler.wake(entry)
        return True

    def sleep(self, c: Cohort, pc: int, flats: list[int]) -> None:
        """Let rows sleep until one of the barriers completes a phase; then they execute `pc`
        again."""

        def what() -> str:
            barrier = self.table[flats[0]]
            return (
                f"{self.name(flats[0])}, phase {barrier.phase}: {barrier.pending} of "
                f"{barrier.count} "
                f"arrivals and {barrier.bytes} bytes missing, at {self.machine.site_of(pc)}"
            )

        self.waiting.append((self.machine.scheduler.block(pc, c, what), flats))


def _one(c: Cohort, i: int, lane: int) -> Array:
    mask = np.zeros((c.n, 32), bool)
    mask[i, lane] = True
    return mask
