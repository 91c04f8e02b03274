"""Shared memory of the resident blocks, with a happens-before race check.

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

from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.cohort import Array, Cohort
from mirage.emulator.errors import (
    MisalignedAccessError,
    MissingFenceError,
    MissingWaitError,
    OutOfBoundsError,
    RaceError,
    UninitialisedReadError,
)
from mirage.emulator.memory import CARRIER, RANK_SHIFT, SHARED_RESERVED

if TYPE_CHECKING:
    from mirage.emulator.machine import Machine


class SharedMemory:
    """`size` bytes for each resident block, the system's first KiB included."""

    def __init__(self, machine: Machine, size: int, granule: int, readers: int) -> None:
        self.machine = machine
        self.size = size
        self.stride = -(-size // 128) * 128
        self.data = np.full(machine.blocks * self.stride, 0xFF, np.uint8)
        self.granule = granule
        self.readers = readers
        self.granules = self.stride // granule
        total = machine.blocks * self.granules if machine.checks else 0
        self.write_agent = np.zeros(total, np.int16)
        self.write_clock = np.zeros(total, np.int32)
        self.write_step = np.zeros(total, np.int32)
        self.read_clock = np.zeros((readers, total), np.int32)
        self.atomic_clock: Array | None = None
        # Reads by copies between blocks, which end with the target's mbarrier phase:
        # (first granule, one after the last, agent, clock).
        self.copies: list[tuple[int, int, int, int]] = []

    # -- addresses ------------------------------------------------------------------------------

    def flatten(self, c: Cohort, address: Array, size: int, align: int = 0) -> Array:
        """Byte index in `data` for each lane [n, 32]; inactive lanes get a harmless one."""
        align = align or size
        address = np.broadcast_to(address, (c.n, 32))
        block = self.machine.block_of_row[c.rows][:, None]
        own = address >> RANK_SHIFT
        if own.any():
            rank = own - 1
            cluster = self.machine.cluster_blocks
            remote = (own > 0) & (rank < cluster)
            offset = np.where(remote, address & ((1 << RANK_SHIFT) - 1), address)
            block = np.where(remote, block // cluster * cluster + rank, block)
        else:
            offset = address
        bad = (offset < SHARED_RESERVED) | (offset > self.size - size)
        if c.mask is not None:
            bad &= c.mask
        if bad.any():
            self.machine.fail(
                OutOfBoundsError,
                f"expected a shared address from {SHARED_RESERVED} to {self.size - size} "
                f"({self.size - SHARED_RESERVED} bytes), got {size} bytes at {{address:#x}}",
                c,
                bad,
                address,
            )
        if align > 1:
            bad = (offset & (align - 1)) != 0
            if c.mask is not None:
                bad &= c.mask
            if bad.any():
                self.machine.fail(
                    MisalignedAccessError,
                    f"expected a shared address that is a multiple of {align}, got {{address:#x}}",
                    c,
                    bad,
                    address,
                )
        flat = block * self.stride + offset
        return flat if c.mask is None else np.where(c.mask, flat, SHARED_RESERVED)

    # -- access ---------------------------------------------------------------------------------

    def load(self, c: Cohort, address: Array, size: int) -> Array:
        """Carriers [n, 32]."""
        flat = self.flatten(c, address, size)
        if self.machine.checks:
            self.check_read(c, *self.spread(c, flat, size))
        return self.data.view(CARRIER[size])[flat // size]

    def store(self, c: Cohort, address: Array, value: Array, size: int) -> None:
        """Writes carriers [n, 32] of the active lanes."""
        flat = self.flatten(c, address, size)
        if self.machine.checks:
            self.check_write(c, *self.spread(c, flat, size))
        view = self.data.view(CARRIER[size])
        if c.mask is None:
            view[flat // size] = value
        else:
            view[flat[c.mask] // size] = value[c.mask]

    def spread(self, c: Cohort, flat: Array, size: int) -> tuple[Array, Array]:
        """(positions in the cohort [N], granules [N, k]) of the active lanes."""
        if c.mask is None:
            position = np.repeat(np.arange(c.n), 32)
            flat = flat.reshape(-1)
        else:
            position = np.nonzero(c.mask)[0]
            flat = flat[c.mask]
        return position, self.granules_of(flat, size)

    def granules_of(self, flat: Array, size: int) -> Array:
        """Granule indices [N, k] of `size` bytes from byte index [N]."""
        first = flat // self.granule
        count = max(1, size // self.granule)
        if count == 1:
            return first[:, None]
        return first[:, None] + np.arange(count)

    # -- the race check -------------------------------------------------------------------------

    def check_read(
        self,
        c: Cohort,
        position: Array,
        granule: Array,
        *,
        agent_base: int = 0,
        clock: Array | None = None,
        proxy: bool = False,
        record: bool = True,
    ) -> None:
        """A read by the rows `position` [N] of the cohort; it is recorded for the agents
        `agent_base` + the row's agent, at `clock` [N] (default: the row's own clock)."""
        machine = self.machine
        rows = c.rows[position]
        wrote = self.write_clock[granule]
        if not wrote.all():
            at = int(np.argmin(wrote.all(axis=1)))
            self._fail(
                c,
                position,
                at,
                granule,
                wrote[at] == 0,
                UninitialisedReadError,
                "expected shared memory to be written before this read, but it is not",
            )
        agent = self.write_agent[granule]
        bad = machine.clocks[rows[:, None], agent] < wrote
        if bad.any():
            self._fail_order(c, position, granule, bad, "reads")
        if proxy:
            fenced = machine.clocks[rows[:, None], agent + machine.agents]
            bad = (fenced < wrote) & machine.generic_agent[agent]
            if bad.any():
                self._fail_proxy(c, position, granule, bad, "reads")
        if self.atomic_clock is not None:
            self._check_others(c, position, granule, rows, self.atomic_clock, "reads", "an atomic")
        if record:
            own = machine.agent_of_row[rows]
            if clock is None:
                clock = machine.clocks[rows, own]
            self.read_clock[(own + agent_base)[:, None], granule] = clock[:, None]

    def check_write(
        self,
        c: Cohort,
        position: Array,
        granule: Array,
        *,
        agent: Array | None = None,
        clock: Array | None = None,
        proxy: bool = False,
    ) -> None:
        """A write by the rows `position` [N] of the cohort, recorded as the agents `agent` [N] at
        `clock` [N] (default: the rows themselves)."""
        machine = self.machine
        rows = c.rows[position]
        wrote = self.write_clock[granule]
        previous = self.write_agent[granule]
        bad = machine.clocks[rows[:, None], previous] < wrote
        if bad.any():
            self._fail_order(c, position, granule, bad, "writes")
        if proxy:
            fenced = machine.clocks[rows[:, None], previous + machine.agents]
            bad = (fenced < wrote) & machine.generic_agent[previous]
            if bad.any():
                self._fail_proxy(c, position, granule, bad, "writes")
        self._check_others(c, position, granule, rows, self.read_clock, "writes", "a read")
        if self.atomic_clock is not None:
            self._check_others(c, position, granule, rows, self.atomic_clock, "writes", "an atomic")
        for first, end, reader, until in self.copies:
            bad = (
                (granule >= first)
                & (granule < end)
                & (machine.clocks[rows, reader] < until)[:, None]
            )
            if bad.any():
                at = int(np.argmax(bad.any(axis=1)))
                self._fail(
                    c,
                    position,
                    at,
                    granule,
                    bad[at],
                    MissingWaitError,
                    f"expected a wait for {machine.agent_name(c, reader)}, which read these "
                    "bytes, before this instruction writes them",
                )
        own = machine.agent_of_row[rows]
        if agent is None:
            agent = own
        if clock is None:
            clock = machine.clocks[rows, own]
        self.write_agent[granule] = agent[:, None]
        self.write_clock[granule] = clock[:, None]
        self.write_step[granule] = machine.step_index
        other = self.write_agent[granule] != agent[:, None]
        if other.any():
            at = int(np.argmax(other.any(axis=1)))
            column = int(np.argmax(other[at]))
            who = machine.agent_name(c, int(self.write_agent[granule[at, column]]))
            self._fail(
                c,
                position,
                at,
                granule,
                other[at],
                RaceError,
                "expected one warp to write these bytes, but "
                f"{who} writes them too, with no barrier between",
            )

    def check_atomic(self, c: Cohort, position: Array, granule: Array) -> None:
        """An atomic update: ordered like a read and a write against plain accesses, but not against
        other atomics."""
        machine = self.machine
        rows = c.rows[position]
        wrote = self.write_clock[granule]
        if not wrote.all():
            at = int(np.argmin(wrote.all(axis=1)))
            self._fail(
                c,
                position,
                at,
                granule,
                wrote[at] == 0,
                UninitialisedReadError,
                "expected shared memory to be written before this atomic, but it is not",
            )
        bad = machine.clocks[rows[:, None], self.write_agent[granule]] < wrote
        if bad.any():
            self._fail_order(c, position, granule, bad, "updates")
        self._check_others(c, position, granule, rows, self.read_clock, "updates", "a read")
        if self.atomic_clock is None:
            self.atomic_clock = np.zeros((machine.domain_warps, len(self.write_clock)), np.int32)
        own = machine.agent_of_row[rows]
        self.atomic_clock[own[:, None], granule] = machine.clocks[rows, own][:, None]

    def check_remote_exit(self) -> None:
        """When all threads have ended: every access to a block's shared memory by another block of
        the cluster must be ordered before the end of the block, or it may come too late."""
        machine = self.machine
        per, cluster = machine.warps_per_block, machine.cluster_blocks
        for block in range(machine.blocks):
            part = slice(block * self.granules, (block + 1) * self.granules)
            rows = slice(block * per, (block + 1) * per)
            seen = machine.clocks[rows].max(axis=0)
            rank = block % cluster
            for agent in range(machine.domain_warps):
                if agent // per == rank:
                    continue
                last = int(self.read_clock[agent, part].max(initial=0))
                wrote = self.write_clock[part][self.write_agent[part] == agent]
                last = max(last, int(wrote.max(initial=0)))
                if last > seen[agent]:
                    other = block - rank + agent // per
                    raise RaceError(
                        f"expected a cluster barrier between the last access of warp {agent % per} "
                        "of "
                        f"block {machine.block_coordinates(other)} to the shared memory of block "
                        f"{machine.block_coordinates(block)} and the exit of that block"
                    )

    def _check_others(
        self,
        c: Cohort,
        position: Array,
        granule: Array,
        rows: Array,
        clocks: Array,
        verb: str,
        other: str,
    ) -> None:
        machine = self.machine
        seen = machine.clocks[rows, : len(clocks)].T[:, :, None]
        late = clocks[:, granule] > seen
        if late.any():
            where: Any = late.any(axis=0)
            at = int(np.argmax(where.any(axis=1)))
            agent = int(np.argmax(late[:, at, int(np.argmax(where[at]))]))
            error = RaceError if agent < machine.domain_warps else MissingWaitError
            self._fail(
                c,
                position,
                at,
                granule,
                where[at],
                error,
                f"expected a barrier or wait between {other} by "
                f"{machine.agent_name(c, agent)} "
                f"and this instruction, which {verb} the same bytes",
            )

    def _fail_order(
        self, c: Cohort, position: Array, granule: Array, bad: Array, verb: str
    ) -> None:
        machine = self.machine
        at = int(np.argmax(bad.any(axis=1)))
        index = granule[at, int(np.argmax(bad[at]))]
        agent = int(self.write_agent[index])
        earlier = machine.site_of(int(self.write_step[index]))
        who = machine.agent_name(c, agent)
        if agent < machine.domain_warps:
            text = f"expected a barrier between the write by {who} ({earlier}) and this "
            self._fail(
                c,
                position,
                at,
                granule,
                bad[at],
                RaceError,
                f"{text}instruction, which {verb} the same bytes",
            )
        text = f"expected a wait for {who}, which writes these bytes ({earlier}), before"
        self._fail(
            c,
            position,
            at,
            granule,
            bad[at],
            MissingWaitError,
            f"{text} this instruction {verb} them",
        )

    def _fail_proxy(
        self, c: Cohort, position: Array, granule: Array, bad: Array, verb: str
    ) -> None:
        machine = self.machine
        at = int(np.argmax(bad.any(axis=1)))
        index = granule[at, int(np.argmax(bad[at]))]
        earlier = machine.site_of(int(self.write_step[index]))
        who = machine.agent_name(c, int(self.write_agent[index]))
        self._fail(
            c,
            position,
            at,
            granule,
            bad[at],
            MissingFenceError,
            f"expected fence.proxy.async between the write by {who} ({earlier}) and this "
            f"instruction, which {verb} the same bytes through the asynchronous proxy",
        )

    def _fail(
        self,
        c: Cohort,
        position: Array,
        at: int,
        granule: Array,
        bad: Array,
        error: type[Exception],
        message: str,
    ) -> None:
        index = int(granule[at, int(np.argmax(bad))])
        block, offset = divmod(index, self.granules)
        address = offset * self.granule
        row = int(position[at])
        lanes = np.zeros((c.n, 32), bool)
        nth = int((position[:at] == row).sum())
        active = np.nonzero(c.active()[row])[0]
        lanes[row, int(active[min(nth, len(active) - 1)]) if len(active) else 0] = True
        where = f"; address {address:#x} ({address - SHARED_RESERVED} bytes into shared memory"
        if self.machine.cluster_blocks > 1:
            where += f" of block {self.machine.block_coordinates(block)}"
        self.machine.fail(error, f"{message}{where})", c, lanes)  # type: ignore[arg-type]
