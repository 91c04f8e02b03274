"""`bar`/`barrier` of a block and `barrier.cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.errors import DivergenceError, MissingWaitError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of
from mirage.emulator.machine.operands import store
from mirage.emulator.machine.scheduler import Waiting
from mirage.emulator.ptx.syntax import Register

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


class _Barrier:
    """One barrier number in all resident blocks."""

    def __init__(self, machine: Machine) -> None:
        self.arrived = np.zeros(machine.blocks, np.int64)
        self.expected = np.zeros(machine.blocks, np.int64)
        self.clocks = np.zeros((machine.blocks, 2 * machine.agents), np.int32)
        self.votes = np.zeros((machine.blocks, 2), np.int64)
        self.waiting: list[tuple[Waiting, Register | None, str]] = []


class BlockBarriers:
    """Counts are in threads; a whole warp counts 32 even where the block ends inside it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.table: dict[int, _Barrier] = {}

    def grow_agents(self, before: int, after: int) -> None:
        """Widen the clock vectors."""
        for barrier in self.table.values():
            barrier.clocks = widen(barrier.clocks, before, after)

    def _expect(self, barrier: _Barrier, c: Cohort, number: int, count: Array | None) -> None:
        """Record how many threads the barrier waits for; all warps of a block must agree on it."""
        machine = self.machine
        blocks = machine.block_of_row[c.rows]
        expected = np.full(c.n, machine.warps_per_block * 32) if count is None else count
        bad = (expected % 32 != 0) | (expected <= 0)
        if any_of(bad):
            machine.fail(
                DivergenceError,
                f"expected a barrier thread count that is a positive multiple of 32, "
                f"got {int(expected[bad][0])}",
                c,
                bad[:, None],
            )
        current = barrier.expected[blocks]
        barrier.expected[blocks] = np.where(current != 0, current, expected)
        current = barrier.expected[blocks]
        bad = current != expected
        if any_of(bad):
            machine.fail(
                DivergenceError,
                f"expected all warps to name the same thread count for barrier {number}, "
                f"got {int(expected[bad][0])} after {int(current[bad][0])}",
                c,
                bad[:, None],
            )

    def arrive(
        self,
        c: Cohort,
        pc: int,
        number: int,
        count: Array | None,
        *,
        wait: bool,
        vote: Array | None = None,
        result: Register | None = None,
        combine: str = "",
    ) -> None:
        """Let rows arrive at barrier `number`; `count` [n] is the number of threads it waits for
        (None: all of the block). With wait, rows sleep until the barrier is complete and resume at
        pc + 1; otherwise they continue there at once. `vote` [n, 32] and `combine` (popc, and, or)
        make it a `bar.red`."""
        machine = self.machine
        barrier = self.table.get(number)
        if barrier is None:
            barrier = self.table[number] = _Barrier(machine)
        blocks = machine.block_of_row[c.rows]
        self._expect(barrier, c, number, count)
        whole = ~(machine.valid[c.rows] & ~c.active()).any(axis=1)
        np.add.at(barrier.arrived, blocks, np.where(whole, 32, c.active().sum(axis=1)))
        if machine.checks:
            np.maximum.at(barrier.clocks, blocks, machine.clocks[c.rows])
            machine.bump(c.rows)
        if vote is not None:
            np.add.at(barrier.votes[:, 0], blocks, (vote & c.active()).sum(axis=1))
            np.add.at(barrier.votes[:, 1], blocks, c.active().sum(axis=1))
        machine.events += 1
        if wait:
            what = f"barrier {number} at {machine.site_of(pc)}"
            waiting = machine.scheduler.block(pc + 1, c, what)
            barrier.waiting.append((waiting, result, combine))
        else:
            machine.scheduler.push(pc + 1, c.rows, c.mask)
        over = barrier.arrived > barrier.expected
        if any_of(over):
            block = int(np.argmax(over))
            machine.fail(
                DivergenceError,
                f"expected {int(barrier.expected[block])} threads at barrier {number}, "
                f"but {int(barrier.arrived[block])} arrive",
                c,
                (blocks == block)[:, None] & c.active(),
            )
        complete = (barrier.arrived == barrier.expected) & (barrier.expected > 0)
        if any_of(complete):
            self._release(barrier, complete)

    def _release(self, barrier: _Barrier, complete: Array) -> None:
        machine, scheduler = self.machine, self.machine.scheduler
        machine.note(block_barriers=complete.sum())
        waiting, barrier.waiting = barrier.waiting, []
        for entry, result, combine in waiting:
            scheduler.blocked.remove(entry)
            go = complete[machine.block_of_row[entry.rows]]
            if not all_of(go):
                stay = ~go
                mask = None if entry.mask is None else entry.mask[stay]
                rest = Waiting(entry.rows[stay], mask, entry.pc, entry.what)
                scheduler.blocked.append(rest)
                barrier.waiting.append((rest, result, combine))
                if not any_of(go):
                    continue
            rows = entry.rows[go]
            mask = None if entry.mask is None else entry.mask[go]
            blocks = machine.block_of_row[rows]
            if machine.checks:
                seen = barrier.clocks[blocks]
                machine.clocks[rows] = np.maximum(machine.clocks[rows], seen)
            if result is not None:
                yes, total = barrier.votes[blocks, 0], barrier.votes[blocks, 1]
                value = {"popc": yes, "and": yes == total, "or": yes > 0}[combine]
                cast = value.astype(np.uint32 if combine == "popc" else bool)[:, None]
                store(result, Cohort(machine, rows, mask), np.repeat(cast, 32, axis=1))
            scheduler.push(entry.pc, rows, mask)
        barrier.arrived[complete] = 0
        barrier.expected[complete] = 0
        barrier.votes[complete] = 0
        barrier.clocks[complete] = 0

    def check_divergence(self) -> None:
        """Raise an error, when nothing can run, if some warps wait at a barrier while others have
        exited or wait at another barrier of the block: that is divergence."""
        machine = self.machine
        for number, barrier in self.table.items():
            for entry, _, _ in barrier.waiting:
                block = int(machine.block_of_row[entry.rows[0]])
                rows = np.nonzero(machine.block_of_row == block)[0]
                exited = ~machine.live[rows].any(axis=1)
                elsewhere = [
                    other.what
                    for n, b in self.table.items()
                    for other, _, _ in b.waiting
                    if (n, other.pc) != (number, entry.pc)
                    and bool((machine.block_of_row[other.rows] == block).any())
                ]
                if not any_of(exited) and not elsewhere:
                    continue
                who = [str(machine.thread(int(r))) for r in rows[exited]]
                absent = f"exited: {', '.join(who)}" if who else f"others wait for {elsewhere[0]}"
                raise DivergenceError(
                    f"expected {int(barrier.expected[block])} threads of block "
                    f"{machine.block_coordinates(block)} at barrier {number}, but "
                    f"{int(barrier.arrived[block])} arrive; {absent}\n"
                    f"{machine.scheduler.situation()}",
                    site=machine.program.kernel.body[entry.pc - 1].site,
                    thread=machine.thread(int(entry.rows[0])),
                )


class ClusterBarriers:
    """Arrive and wait are separate; threads that have exited count as arrived."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        clusters = machine.blocks // machine.cluster_blocks
        self.phase = np.zeros(clusters, np.int64)
        self.arrived = np.zeros((machine.warps, 32), bool)
        self.clocks = np.zeros((clusters, 2 * machine.agents), np.int32)
        self.done = np.zeros((clusters, 2 * machine.agents), np.int32)
        self.owed = np.full((machine.warps, 32), -1, np.int64)
        self.waiting: list[Waiting] = []
        self.passed = np.zeros(machine.blocks, bool)  # blocks in which a thread has waited

    def require_started(self, c: Cohort, others: Array, address: Array) -> None:
        """Check that blocks have started whose shared memory is accessed by another one: threads
        of that one have waited for all threads of the cluster."""
        bad = others & ~self.passed[self.machine.block_of_row[c.rows]][:, None] & c.active()
        if any_of(bad):
            self.machine.fail(
                MissingWaitError,
                "expected a cluster barrier before the first access to the shared memory of "
                "another block, which may not have started, got {address:#x}",
                c,
                bad,
                address,
            )

    def grow_agents(self, before: int, after: int) -> None:
        """Widen the clock vectors."""
        self.clocks = widen(self.clocks, before, after)
        self.done = widen(self.done, before, after)

    def arrive(self, c: Cohort, *, release: bool) -> None:
        """Let rows arrive and continue."""
        machine = self.machine
        domains = machine.domain_of_row[c.rows]
        bad = (self.owed[c.rows] >= 0) & c.active()
        if any_of(bad):
            machine.fail(
                DivergenceError,
                "expected barrier.cluster.wait between two barrier.cluster.arrive, got none",
                c,
                bad,
            )
        self.owed[c.rows] = np.where(c.active(), self.phase[domains][:, None], self.owed[c.rows])
        self.arrived[c.rows] |= c.active()
        if machine.checks and release:
            np.maximum.at(self.clocks, domains, machine.clocks[c.rows])
            machine.bump(c.rows)
        machine.events += 1
        self.complete()

    def complete(self) -> None:
        """Flip the phase of clusters in which all live threads have arrived."""
        machine = self.machine
        ready: Any = (self.arrived | ~machine.live).reshape(len(self.phase), -1).all(axis=1)
        ready &= self.arrived.reshape(len(self.phase), -1).any(axis=1)
        if not any_of(ready):
            return
        machine.note(cluster_barriers=ready.sum())
        self.phase[ready] += 1
        self.arrived[ready[machine.domain_of_row]] = False
        self.done[ready] = self.clocks[ready]
        self.clocks[ready] = 0
        waiting, self.waiting = self.waiting, []
        for entry in waiting:
            machine.scheduler.wake(entry)

    def wait(self, c: Cohort, pc: int, *, acquire: bool) -> None:
        """Let rows resume at pc + 1 once the phase in which they arrived is over."""
        machine = self.machine
        owed = np.where(c.active(), self.owed[c.rows], 0)
        if (owed < 0).any():
            machine.fail(
                DivergenceError,
                "expected barrier.cluster.arrive before barrier.cluster.wait, got none",
                c,
                owed < 0,
            )
        domains = machine.domain_of_row[c.rows]
        late = (owed >= self.phase[domains][:, None]) & c.active()
        go = ~late.any(axis=1)
        if not all_of(go):
            rest = c.keep(~go)
            what = f"cluster barrier at {machine.site_of(pc)}"
            self.waiting.append(machine.scheduler.block(pc, rest, what))
        if any_of(go):
            done = c.keep(go)
            self.owed[done.rows] = np.where(done.active(), -1, self.owed[done.rows])
            self.passed[machine.block_of_row[done.rows]] = True
            if machine.checks and acquire:
                seen = self.done[machine.domain_of_row[done.rows]]
                machine.clocks[done.rows] = np.maximum(machine.clocks[done.rows], seen)
            machine.scheduler.push(pc + 1, done.rows, done.mask)


def widen(clocks: Array, before: int, after: int) -> Array:
    """Convert clock vectors [.., 2 * before] to [.., 2 * after]."""
    result = np.zeros((*clocks.shape[:-1], 2 * after), clocks.dtype)
    result[..., :before] = clocks[..., :before]
    result[..., after : after + before] = clocks[..., before:]
    return result
