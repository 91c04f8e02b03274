"""Order of accesses to shared memory: a happens-before check.

Every warp has a vector clock over *agents*; agents are the warps of the cluster and, for
asynchronous copies, one agent for each warp's cp.async groups, bulk groups and wgmma groups and one
for each mbarrier. Barriers, mbarriers and waits join clocks. Each granule (the smallest shared
access of the kernel) remembers its last write as (agent, clock) and, for each reading agent, the
clock of its last read. A read must be ordered after the last write; a write after the last write
and after every read. This is the FastTrack algorithm (Flanagan, Freund, PLDI 2009) with full read
vectors: it finds a missing barrier whatever the order of execution.

The second half of each clock vector counts what proxy fences made visible to the asynchronous
proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from mirage.emulator.errors import (
    MissingFenceError,
    MissingWaitError,
    RaceError,
    UninitialisedReadError,
)
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.granules import Access, Granules, first_of
from mirage.emulator.machine.lane_order import LaneOrder

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


class RaceCheck(Granules):
    """Checks the accesses to the granules of every resident block."""

    def __init__(self, machine: Machine, granules: int, granule: int, readers: int) -> None:
        super().__init__(machine, granules, granule, readers)
        self._reads = np.zeros(readers, bool)  # which agents have read anything
        self._lanes = LaneOrder(self)
        self._atomic_clock: Array | None = None
        self._remote_step = np.full(machine.warps, -1, np.int32)
        # Reads by copies between blocks, which end with the target's mbarrier phase:
        # (first granule, one after the last, agent, clock).
        self._copies: list[tuple[int, int, int, int]] = []

    # -- accesses -------------------------------------------------------------------------------

    def read(
        self,
        c: Cohort,
        position: Array,
        granule: Array,
        *,
        agent_base: int = 0,
        clock: Array | None = None,
        proxy: bool = False,
        record: bool = True,
        lane: Array | None = None,
    ) -> None:
        """Check a read by the rows `position` [N] of the cohort, and record it for the agents
        `agent_base` + the row's agent, at `clock` [N] (default: the row's own clock). `lane` [N] is
        given for a warp's own read, and ``SEVERAL`` if lanes read for each other."""
        machine = self.machine
        rows = c.rows[position]
        access = Access(c, position, granule, rows, "reads")
        self._require_written(access, "read")
        self._require_order(access, proxy=proxy)
        if self._atomic_clock is not None:
            every = np.arange(len(self._atomic_clock))
            self._require_after(access, self._atomic_clock, "an atomic", every)
        if lane is not None:
            self._lanes.read(access, lane)
        if record:
            own = machine.agent_of_row[rows]
            if clock is None:
                clock = machine.clocks[rows, own]
            agent = own + agent_base
            self._reads[agent] = True
            self.read_clock[agent[:, None], granule] = clock[:, None]

    def read_together(
        self, c: Cohort, position: Array, granule: Array, *, agent_base: int, clock: Array
    ) -> None:
        """Check reads through the asynchronous proxy by several rows at a time, `position` [N,
        rows] of the cohort, each of which must be ordered; and record them once, for the agents
        `agent_base` + the agent of the first row, at `clock` [N]."""
        machine, agents = self.machine, self.machine.agents
        rows = c.rows[position]
        if self._atomic_clock is None:
            least = machine.clocks[rows].min(axis=1)  # the clocks that all of them have seen
            seen, fenced = least[:, :agents], least[:, agents:]
            seen = np.where(machine.generic_agent, np.minimum(seen, fenced), seen)
            wrote = self.write_clock[granule]
            late = np.take_along_axis(seen, self.write_agent[granule].astype(np.intp), axis=1)
            ordered = not any_of((late < wrote) | (wrote == 0))
        else:
            ordered = False
        if not ordered:
            for row in position.T:
                self.read(c, row, granule, proxy=True, record=False)
        agent = agent_base + machine.agent_of_row[rows[:, 0]]
        self._reads[agent] = True
        self.read_clock[agent[:, None], granule] = clock[:, None]

    def write(
        self,
        c: Cohort,
        position: Array,
        granule: Array,
        *,
        agent: Array | None = None,
        clock: Array | None = None,
        proxy: bool = False,
        lane: Array | None = None,
    ) -> None:
        """Check a write by the rows `position` [N] of the cohort, and record it for the agents
        `agent` [N] at `clock` [N] (default: the rows themselves). `lane` is as in :meth:`read`."""
        machine = self.machine
        rows = c.rows[position]
        access = Access(c, position, granule, rows, "writes")
        self._require_order(access, proxy=proxy)
        self._require_after(access, self.read_clock, "a read", np.flatnonzero(self._reads))
        if self._atomic_clock is not None:
            every = np.arange(len(self._atomic_clock))
            self._require_after(access, self._atomic_clock, "an atomic", every)
        self._require_copies_done(access)
        if lane is not None:
            self._lanes.written(access, lane)
        own = machine.agent_of_row[rows]
        if agent is None:
            agent = own
        if clock is None:
            clock = machine.clocks[rows, own]
        self.write_agent[granule] = agent[:, None]
        self.write_clock[granule] = clock[:, None]
        self.write_step[granule] = machine.step_index
        other = self.write_agent[granule] != agent[:, None]
        if any_of(other):
            who = machine.agent_name(c, int(self.write_agent[granule[first_of(other)]]))
            self.fail(
                access,
                other,
                RaceError,
                f"expected one warp to write these bytes, but {who} writes them too, with no "
                "barrier between",
            )

    def waited(self, rows: Array, seen: Array) -> None:
        """Record that rows wait for their own copies, of which those up to ``seen`` [n] are already
        done."""
        self._lanes.waited(rows, seen)

    def atomic(self, c: Cohort, position: Array, granule: Array) -> None:
        """Check an atomic update: it is ordered like a read and a write against plain accesses, but
        not against other atomics."""
        machine = self.machine
        rows = c.rows[position]
        access = Access(c, position, granule, rows, "updates")
        self._require_written(access, "atomic")
        self._require_order(access)
        self._require_after(access, self.read_clock, "a read", np.flatnonzero(self._reads))
        if self._atomic_clock is None:
            self._atomic_clock = np.zeros((machine.domain_warps, len(self.write_clock)), np.int32)
        own = machine.agent_of_row[rows]
        self._atomic_clock[own[:, None], granule] = machine.clocks[rows, own][:, None]

    def copy_reads(self, granule: Array, agent: int, clock: int) -> None:
        """Record that a copy reads granules [1, k] until `agent` reaches `clock`."""
        self._copies.append((int(granule[0, 0]), int(granule[0, -1]) + 1, agent, clock))

    def remote(self, rows: Array) -> None:
        """Record that rows access shared memory of another block now."""
        self._remote_step[rows] = self.machine.step_index

    # -- requirements ---------------------------------------------------------------------------

    def _require_written(self, access: Access, what: str) -> None:
        bad = self.write_clock[access.granule] == 0
        if any_of(bad):
            text = f"expected shared memory to be written before this {what}, but it is not"
            self.fail(access, bad, UninitialisedReadError, text)

    def _require_order(self, access: Access, *, proxy: bool = False) -> None:
        """Check that an access follows the last write and, through the asynchronous proxy, a
        fence."""
        machine = self.machine
        wrote = self.write_clock[access.granule]
        agent = self.write_agent[access.granule]
        rows = access.rows[:, None]
        bad = machine.clocks[rows, agent] < wrote
        if any_of(bad):
            self._fail_order(access, bad)
        if proxy:
            fenced = machine.clocks[rows, agent + machine.agents]
            bad = (fenced < wrote) & machine.generic_agent[agent]
            if any_of(bad):
                _, who, earlier = self.last_write(access, bad)
                self.fail(
                    access,
                    bad,
                    MissingFenceError,
                    f"expected fence.proxy.async between the write by {who} ({earlier}) and this "
                    f"instruction, which {access.verb} the same bytes through the asynchronous "
                    "proxy",
                )

    def _require_after(self, access: Access, clocks: Array, other: str, agents: Array) -> None:
        """Check that an access follows the last access in `clocks` [agents, granules] of each of
        `agents`, which are all that have made such accesses."""
        machine = self.machine
        seen = machine.clocks[access.rows, agents[:, None]][:, :, None]
        late = clocks[agents[:, None, None], access.granule] > seen
        if any_of(late):
            bad = np.asarray(late.any(axis=0))
            at, column = first_of(bad)
            agent = int(agents[np.argmax(late[:, at, column])])
            self.fail(
                access,
                bad,
                RaceError if agent < machine.domain_warps else MissingWaitError,
                f"expected a barrier or wait between {other} by "
                f"{machine.agent_name(access.cohort, agent)} and this instruction, which "
                f"{access.verb} the same bytes",
            )

    def _require_copies_done(self, access: Access) -> None:
        machine = self.machine
        granule = access.granule
        for first, end, reader, until in self._copies:
            late = (machine.clocks[access.rows, reader] < until)[:, None]
            bad = (granule >= first) & (granule < end) & late
            if any_of(bad):
                self.fail(
                    access,
                    bad,
                    MissingWaitError,
                    f"expected a wait for {machine.agent_name(access.cohort, reader)}, which read "
                    f"these bytes, before this instruction {access.verb} them",
                )

    def require_no_remote_access(self) -> None:
        """Check, when all threads have ended, that every access to a block's shared memory by
        another block of the cluster is ordered before the end of the block; otherwise it may come
        too late."""
        machine = self.machine
        per, cluster = machine.warps_per_block, machine.cluster_blocks
        for block in range(machine.blocks):
            part = slice(block * self.granules, (block + 1) * self.granules)
            seen = machine.clocks[block * per : (block + 1) * per].max(axis=0)
            rank = block % cluster
            for agent in range(machine.domain_warps):
                if agent // per == rank:
                    continue
                own = self.write_agent[part] == agent
                last = np.where(own, self.write_clock[part], 0)
                last = np.maximum(last, self.read_clock[agent, part])
                late = last > seen[agent]
                if any_of(late):
                    row = (block - rank) * per + agent
                    name = f"warp {agent % per} of block "
                    name += str(machine.block_coordinates(block - rank + agent // per))
                    raise RaceError(
                        f"expected a cluster barrier between the last access of {name} to the "
                        f"shared memory of block {machine.block_coordinates(block)} and the exit "
                        "of that block",
                        site=machine.program.kernel.body[int(self._remote_step[row])].site,
                        thread=machine.thread(row),
                        address=int(np.argmax(late)) * self.granule,
                    )

    # -- errors ---------------------------------------------------------------------------------

    def _fail_order(self, access: Access, bad: Array) -> NoReturn:
        agent, who, earlier = self.last_write(access, bad)
        if agent < self.machine.domain_warps:
            self.fail(
                access,
                bad,
                RaceError,
                f"expected a barrier between the write by {who} ({earlier}) and this instruction, "
                f"which {access.verb} the same bytes",
            )
        self.fail(
            access,
            bad,
            MissingWaitError,
            f"expected a wait for {who}, which writes these bytes ({earlier}), before this "
            f"instruction {access.verb} them",
        )
