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

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from mirage.emulator.errors import (
    EmulatorError,
    MissingFenceError,
    MissingWaitError,
    RaceError,
    UninitialisedReadError,
)
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.memory import SHARED_RESERVED

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


SEVERAL = -1
"""In place of a lane: several lanes, or lanes that access memory for each other."""


@dataclass(frozen=True, eq=False)
class _Access:
    """The N accesses of one instruction: positions of their rows in the cohort [N], granules [N,
    k], rows of the machine [N]; `verb` describes the instruction in messages."""

    cohort: Cohort
    position: Array
    granule: Array
    rows: Array
    verb: str


class RaceCheck:
    """The state of each of `granules` granules of `granule` bytes of every resident block;
    `readers` agents may read."""

    def __init__(self, machine: Machine, granules: int, granule: int, readers: int) -> None:
        self.machine = machine
        self.granule = granule
        self.granules = granules
        total = machine.blocks * granules if machine.checks else 0
        self._write_agent = np.zeros(total, np.int16)
        self._write_clock = np.zeros(total, np.int32)
        self._write_step = np.zeros(total, np.int32)
        self._read_clock = np.zeros((readers, total), np.int32)
        self._reads = np.zeros(readers, bool)  # which agents have read anything
        self._write_lane = np.zeros(total, np.int8)
        self._reader = np.full(total, -1, np.int16)
        self._read_lane = np.zeros(total, np.int8)
        # Of each warp the clock at its last wait for its own copies, and the last of them that was
        # waited for before that clock.
        self._waited = np.zeros(machine.warps, np.int32)
        self._shared_copies = np.zeros(machine.warps, np.int32)
        self._atomic_clock: Array | None = None
        self._remote_step = np.full(machine.warps, -1, np.int32)
        # Reads by copies between blocks, which end with the target's mbarrier phase:
        # (first granule, one after the last, agent, clock).
        self._copies: list[tuple[int, int, int, int]] = []

    # -- granules -------------------------------------------------------------------------------

    def spread(self, c: Cohort, flat: Array, size: int) -> tuple[Array, Array]:
        """Return (positions in the cohort [N], granules [N, k]) of the active lanes' accesses of
        `size` bytes at byte index `flat` [n, 32]."""
        if c.mask is None:
            position = np.repeat(np.arange(c.n), 32)
            flat = flat.reshape(-1)
        else:
            position = np.nonzero(c.mask)[0]
            flat = flat[c.mask]
        first = flat // self.granule
        count = max(1, size // self.granule)
        return position, first[:, None] + np.arange(count) if count > 1 else first[:, None]

    def lanes(self, c: Cohort, *, collective: bool) -> Array:
        """Return the lanes [N] of the active lanes' accesses, in the order of :meth:`spread`."""
        if collective:
            return np.full(c.n * 32 if c.mask is None else int(c.mask.sum()), SEVERAL)
        return np.tile(np.arange(32), c.n) if c.mask is None else np.nonzero(c.mask)[1]

    def range(self, flat: int, size: int) -> Array:
        """Return the granules [1, k] of `size` bytes at byte index `flat`."""
        return np.arange(flat // self.granule, (flat + size) // self.granule)[None, :]

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
        given for a warp's own read, and :data:`SEVERAL` if lanes read for each other."""
        machine = self.machine
        rows = c.rows[position]
        access = _Access(c, position, granule, rows, "reads")
        self._require_written(access, "read")
        self._require_order(access, proxy=proxy)
        if self._atomic_clock is not None:
            every = np.arange(len(self._atomic_clock))
            self._require_after(access, self._atomic_clock, "an atomic", every)
        if lane is not None:
            self._read_by_lanes(access, lane)
        if record:
            own = machine.agent_of_row[rows]
            if clock is None:
                clock = machine.clocks[rows, own]
            agent = own + agent_base
            self._reads[agent] = True
            self._read_clock[agent[:, None], granule] = clock[:, None]

    def read_together(
        self, c: Cohort, position: Array, granule: Array, *, agent_base: int, clock: Array
    ) -> None:
        """Check reads through the asynchronous proxy by several rows at a time, `position` [N,
        rows] of the cohort, each of which has to be ordered; and record them once, for the agents
        `agent_base` + the agent of the first row, at `clock` [N]."""
        machine, agents = self.machine, self.machine.agents
        rows = c.rows[position]
        if self._atomic_clock is None:
            least = machine.clocks[rows].min(axis=1)  # what all of them have seen
            seen, fenced = least[:, :agents], least[:, agents:]
            seen = np.where(machine.generic_agent, np.minimum(seen, fenced), seen)
            wrote = self._write_clock[granule]
            late = np.take_along_axis(seen, self._write_agent[granule].astype(np.intp), axis=1)
            ordered = not any_of((late < wrote) | (wrote == 0))
        else:
            ordered = False
        if not ordered:
            for row in position.T:
                self.read(c, row, granule, proxy=True, record=False)
        agent = agent_base + machine.agent_of_row[rows[:, 0]]
        self._reads[agent] = True
        self._read_clock[agent[:, None], granule] = clock[:, None]

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
        access = _Access(c, position, granule, rows, "writes")
        self._require_order(access, proxy=proxy)
        self._require_after(access, self._read_clock, "a read", np.flatnonzero(self._reads))
        if self._atomic_clock is not None:
            every = np.arange(len(self._atomic_clock))
            self._require_after(access, self._atomic_clock, "an atomic", every)
        self._require_copies_done(access)
        if lane is not None:
            self._written_by_lanes(access, lane)
        own = machine.agent_of_row[rows]
        if agent is None:
            agent = own
        if clock is None:
            clock = machine.clocks[rows, own]
        self._write_agent[granule] = agent[:, None]
        self._write_clock[granule] = clock[:, None]
        self._write_step[granule] = machine.step_index
        other = self._write_agent[granule] != agent[:, None]
        if any_of(other):
            who = machine.agent_name(c, int(self._write_agent[granule[_first(other)]]))
            self._fail(
                access,
                other,
                RaceError,
                f"expected one warp to write these bytes, but {who} writes them too, with no "
                "barrier between",
            )

    def waited(self, rows: Array, seen: Array) -> None:
        """Record that rows wait for their own copies, of which those up to ``seen`` [n] are already
        done."""
        machine = self.machine
        now = machine.clocks[rows, machine.agent_of_row[rows]]
        again = self._waited[rows] == now  # without a barrier since the last wait
        self._shared_copies[rows] = np.where(again, self._shared_copies[rows], seen)
        self._waited[rows] = now

    def _read_by_lanes(self, access: _Access, lane: Array) -> None:
        """Check that a lane reads a value that another lane of the warp wrote, or copied and waited
        for, only after bar.warp.sync (or any barrier): until then the warp's clock does not
        advance."""
        granule, own, clock = access.granule, *self._now(access)
        lane, rows = lane[:, None], access.rows[:, None]
        agent, written = self._write_agent[granule], self._write_clock[granule]
        bad = (agent == own) & (written == clock)
        copied = (agent == own + self.machine.copy_agent) & (self._waited[rows] == clock)
        bad |= copied & (written > self._shared_copies[rows])
        bad &= (self._write_lane[granule] != lane) | (lane == SEVERAL)
        if any_of(bad):
            self._fail_lanes(access, bad, self._write_lane, "the write")
        lanes = np.broadcast_to(lane, granule.shape)
        before = (self._reader[granule] == own) & (self._read_clock[own, granule] == clock)
        others = before & (self._read_lane[granule] != lanes)
        self._reader[granule] = own
        self._read_lane[granule] = lanes
        others |= self._read_lane[granule] != lanes  # several lanes at a time
        self._read_lane[granule[others]] = SEVERAL

    def _written_by_lanes(self, access: _Access, lane: Array) -> None:
        """Check that memory which another lane of the warp still reads is not written before
        bar.warp.sync."""
        granule, own, clock = access.granule, *self._now(access)
        bad = (self._reader[granule] == own) & (self._read_clock[own, granule] == clock)
        bad &= (self._read_lane[granule] != lane[:, None]) | (lane[:, None] == SEVERAL)
        if any_of(bad):
            self._fail_lanes(access, bad, self._read_lane, "the read")
        lanes = np.broadcast_to(lane[:, None], granule.shape)
        self._write_lane[granule] = lanes
        self._write_lane[granule[self._write_lane[granule] != lanes]] = SEVERAL

    def _now(self, access: _Access) -> tuple[Array, Array]:
        """Return the warps' agents and own clocks [N, 1]."""
        own = self.machine.agent_of_row[access.rows]
        return own[:, None], self.machine.clocks[access.rows, own][:, None]

    def _fail_lanes(self, access: _Access, bad: Array, lanes: Array, what: str) -> NoReturn:
        other = int(lanes[access.granule[_first(bad)]])
        who = "other lanes" if other == SEVERAL else f"lane {other}"
        self._fail(
            access,
            bad,
            RaceError,
            f"expected bar.warp.sync between {what} by {who} of this warp and this instruction, "
            f"which {access.verb} the same bytes",
        )

    def atomic(self, c: Cohort, position: Array, granule: Array) -> None:
        """Check an atomic update: it is ordered like a read and a write against plain accesses, but
        not against other atomics."""
        machine = self.machine
        rows = c.rows[position]
        access = _Access(c, position, granule, rows, "updates")
        self._require_written(access, "atomic")
        self._require_order(access)
        self._require_after(access, self._read_clock, "a read", np.flatnonzero(self._reads))
        if self._atomic_clock is None:
            self._atomic_clock = np.zeros((machine.domain_warps, len(self._write_clock)), np.int32)
        own = machine.agent_of_row[rows]
        self._atomic_clock[own[:, None], granule] = machine.clocks[rows, own][:, None]

    def copy_reads(self, granule: Array, agent: int, clock: int) -> None:
        """Record that a copy reads granules [1, k] until `agent` reaches `clock`."""
        self._copies.append((int(granule[0, 0]), int(granule[0, -1]) + 1, agent, clock))

    def remote(self, rows: Array) -> None:
        """Record that rows access shared memory of another block now."""
        self._remote_step[rows] = self.machine.step_index

    # -- requirements ---------------------------------------------------------------------------

    def _require_written(self, access: _Access, what: str) -> None:
        bad = self._write_clock[access.granule] == 0
        if any_of(bad):
            text = f"expected shared memory to be written before this {what}, but it is not"
            self._fail(access, bad, UninitialisedReadError, text)

    def _require_order(self, access: _Access, *, proxy: bool = False) -> None:
        """Check that an access follows the last write and, through the asynchronous proxy, a
        fence."""
        machine = self.machine
        wrote = self._write_clock[access.granule]
        agent = self._write_agent[access.granule]
        rows = access.rows[:, None]
        bad = machine.clocks[rows, agent] < wrote
        if any_of(bad):
            self._fail_order(access, bad)
        if proxy:
            fenced = machine.clocks[rows, agent + machine.agents]
            bad = (fenced < wrote) & machine.generic_agent[agent]
            if any_of(bad):
                _, who, earlier = self._last_write(access, bad)
                self._fail(
                    access,
                    bad,
                    MissingFenceError,
                    f"expected fence.proxy.async between the write by {who} ({earlier}) and this "
                    f"instruction, which {access.verb} the same bytes through the asynchronous "
                    "proxy",
                )

    def _require_after(self, access: _Access, clocks: Array, other: str, agents: Array) -> None:
        """Check that an access follows the last access in `clocks` [agents, granules] of each of
        `agents`, which are all that have made such accesses."""
        machine = self.machine
        seen = machine.clocks[access.rows, agents[:, None]][:, :, None]
        late = clocks[agents[:, None, None], access.granule] > seen
        if any_of(late):
            bad = np.asarray(late.any(axis=0))
            at, column = _first(bad)
            agent = int(agents[np.argmax(late[:, at, column])])
            self._fail(
                access,
                bad,
                RaceError if agent < machine.domain_warps else MissingWaitError,
                f"expected a barrier or wait between {other} by "
                f"{machine.agent_name(access.cohort, agent)} and this instruction, which "
                f"{access.verb} the same bytes",
            )

    def _require_copies_done(self, access: _Access) -> None:
        machine = self.machine
        granule = access.granule
        for first, end, reader, until in self._copies:
            late = (machine.clocks[access.rows, reader] < until)[:, None]
            bad = (granule >= first) & (granule < end) & late
            if any_of(bad):
                self._fail(
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
                own = self._write_agent[part] == agent
                last = np.where(own, self._write_clock[part], 0)
                last = np.maximum(last, self._read_clock[agent, part])
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

    def _last_write(self, access: _Access, bad: Array) -> tuple[int, str, str]:
        """Return the agent, its name and the instruction of the last write of the first bad
        granule."""
        index = access.granule[_first(bad)]
        agent = int(self._write_agent[index])
        earlier = self.machine.site_of(int(self._write_step[index]))
        return agent, self.machine.agent_name(access.cohort, agent), earlier

    def _fail_order(self, access: _Access, bad: Array) -> NoReturn:
        agent, who, earlier = self._last_write(access, bad)
        if agent < self.machine.domain_warps:
            self._fail(
                access,
                bad,
                RaceError,
                f"expected a barrier between the write by {who} ({earlier}) and this instruction, "
                f"which {access.verb} the same bytes",
            )
        self._fail(
            access,
            bad,
            MissingWaitError,
            f"expected a wait for {who}, which writes these bytes ({earlier}), before this "
            f"instruction {access.verb} them",
        )

    def _fail(
        self, access: _Access, bad: Array, error: type[EmulatorError], message: str
    ) -> NoReturn:
        """Raise an error for the first bad granule [N, k], naming its lane and address."""
        c = access.cohort
        at, column = _first(bad)
        block, offset = divmod(int(access.granule[at, column]), self.granules)
        address = offset * self.granule
        row = int(access.position[at])
        lanes = np.zeros((c.n, 32), bool)
        nth = int((access.position[:at] == row).sum())
        active = np.nonzero(c.active()[row])[0]
        lanes[row, int(active[min(nth, len(active) - 1)]) if len(active) else 0] = True
        where = f"; address {address:#x} ({address - SHARED_RESERVED} bytes into shared memory"
        if self.machine.cluster_blocks > 1:
            where += f" of block {self.machine.block_coordinates(block)}"
        self.machine.fail(error, f"{message}{where})", c, lanes, np.full((c.n, 32), address))


def _first(bad: Array) -> tuple[int, int]:
    """Return the access and column of the first true element of [N, k]."""
    at = int(np.argmax(bad.any(axis=1)))
    return at, int(np.argmax(bad[at]))
