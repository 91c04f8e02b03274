"""The order of accesses to global memory, between blocks and between the warps of a block.

For each element of memory that a kernel writes, the last writer and the last reader are recorded: a
unit (a cluster, or a block if there are no clusters), a writer within it (a warp, or the bulk
copies of a warp), and its clock. Within a unit, the clocks of the warps decide whether an access is
ordered after another; between units, releases and acquires do
(:mod:`mirage.emulator.machine.releases`).

Two accesses to the same element, one of which is a write, must be ordered, unless the write changes
nothing (blocks that store the same value), or both are strong (atomic, relaxed, volatile). Only one
reader is recorded, and reads of an input before its first write are not: a missing order may go
unnoticed, but no unnecessary order is required.

A bulk copy that writes is ordered after everything that its warp knew when it was issued, and
before everything that knows of the warp's ``cp.async.bulk.wait_group`` for it (without ``.read``,
which only says that shared memory has been read).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from mirage.emulator.errors import MissingFenceError, RaceError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.releases import Releases

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine
    from mirage.emulator.machine.memory import Allocation


@dataclass(eq=False)
class _Marks:
    """The last access to each granule: the unit (from 1; 0: none), its writer and its clock."""

    unit: Array
    writer: Array
    clock: Array

    @staticmethod
    def of(count: int) -> _Marks:
        return _Marks(
            np.zeros(count, np.int32), np.zeros(count, np.int16), np.zeros(count, np.int32)
        )

    def set(self, granule: Array, unit: Array, writer: Array, clock: Array) -> None:
        self.unit[granule] = unit
        self.writer[granule] = writer
        self.clock[granule] = clock


@dataclass(eq=False)
class _State:
    """The state of one allocation: its last writers with their instructions, and its last
    readers."""

    writes: _Marks
    reads: _Marks
    step: Array
    strong: Array


@dataclass(frozen=True, eq=False)
class _Access:
    """N accesses of one instruction: its cohort and active lanes [n, 32], rows of the machine [N],
    granules [N, k]; ``verb`` says in messages what it does. ``bulk``: by the asynchronous proxy."""

    cohort: Cohort
    allocation: Allocation
    lanes: Array
    rows: Array
    granule: Array
    verb: str
    bulk: bool = False


class GlobalOrder:
    """The state of global memory for all blocks of a launch, resident or not."""

    def __init__(self, granule: int) -> None:
        self.granule = granule
        self.releases = Releases()
        self._states: dict[int, _State] = {}  # by the allocation's base

    # -- accesses of warps ----------------------------------------------------------------------

    def read(
        self, c: Cohort, allocation: Allocation, lanes: Array, offset: Array, size: int
    ) -> None:
        """Check and record a weak read of active lanes."""
        state = self._state(allocation, create=allocation.written is not None)
        if state is None:
            return
        rows, granule = self._spread(c, lanes, offset, size)
        self._read(_Access(c, allocation, lanes, rows, granule, "reads"), state)

    def write(
        self,
        c: Cohort,
        allocation: Allocation,
        lanes: Array,
        offset: Array,
        size: int,
        changes: Array,
        *,
        strong: bool = False,
    ) -> None:
        """Check and record a write of active lanes, weak or strong; ``changes`` [N] says where it
        makes a difference."""
        state = self._state(allocation, create=True)
        assert state is not None
        rows, granule = self._spread(c, lanes, offset, size)
        access = _Access(c, allocation, lanes, rows, granule, "changes")
        self._require_no_loss(access, state, changes[:, None], strong=strong)
        state.writes.set(granule, *self._own(c.machine, rows))
        state.step[granule] = c.machine.step_index
        state.strong[granule] = strong

    def overwritten(
        self, c: Cohort, allocation: Allocation, lanes: Array, offset: Array, size: int, lost: Array
    ) -> None:
        """Check, after a weak write, where values are ``lost`` [N] because another warp writes
        different ones in the same instruction."""
        if not any_of(lost):
            return
        state = self._states[allocation.base]
        rows, granule = self._spread(c, lanes, offset, size)
        rows, granule = rows[lost], granule[lost]
        unit, warp, _ = self._own(c.machine, rows)
        bad = (state.writes.unit[granule] != unit) | (state.writes.writer[granule] != warp)
        if any_of(bad):
            access = _Access(c, allocation, lanes, rows, granule, "changes")
            self._fail(access, bad, state.writes, state)

    # -- bulk copies ----------------------------------------------------------------------------

    def bulk_read(self, c: Cohort, allocation: Allocation, lane: Array, granule: Array) -> None:
        """Check and record that a bulk copy that a ``lane`` [n, 32] starts reads granules [k]."""
        state = self._state(allocation, create=allocation.written is not None)
        if state is not None:
            self._read(self._bulk(c, allocation, lane, granule, "reads"), state)

    def bulk_write(
        self,
        c: Cohort,
        allocation: Allocation,
        lane: Array,
        granule: Array,
        changes: Array,
        *,
        strong: bool,
    ) -> None:
        """Check and record that a bulk copy, started by one ``lane`` [n, 32], writes granules [k];
        ``changes`` [k] says where it makes a difference. ``strong``: a reduction, each element of
        which is atomic."""
        state = self._state(allocation, create=True)
        assert state is not None
        machine = c.machine
        access = self._bulk(c, allocation, lane, granule, "changes")
        self._require_no_loss(access, state, changes[None, :], strong=strong)
        row = access.rows
        unit, warp, _ = self._own(machine, row)
        group = machine.bulk_group[row][:, None]
        state.writes.set(access.granule, unit, machine.domain_warps + warp, group)
        state.step[granule] = machine.step_index
        state.strong[granule] = strong

    def granules(self, first: Array, size: int) -> Array:
        """Return the granules [k] of runs of ``size`` bytes that start at bytes ``first`` [N]."""
        starts = first.reshape(-1) // self.granule
        return (starts[:, None] + np.arange(-(-size // self.granule))).reshape(-1)

    @staticmethod
    def _bulk(c: Cohort, allocation: Allocation, lane: Array, granule: Array, verb: str) -> _Access:
        rows = c.rows[lane.any(axis=1)]
        return _Access(c, allocation, lane, rows, granule[None, :], verb, bulk=True)

    # -- known accesses -------------------------------------------------------------------------

    def _state(self, allocation: Allocation, *, create: bool) -> _State | None:
        state = self._states.get(allocation.base)
        if state is None and create:
            count = -(-len(allocation.data) // self.granule)
            state = self._states[allocation.base] = _State(
                _Marks.of(count), _Marks.of(count), np.zeros(count, np.int32), np.zeros(count, bool)
            )
        return state

    def _spread(self, c: Cohort, lanes: Array, offset: Array, size: int) -> tuple[Array, Array]:
        """Return the machine rows [N] and granules [N, k] of the accesses."""
        rows = np.broadcast_to(c.rows[:, None], lanes.shape)[lanes]
        first = offset[lanes] // self.granule
        return rows, first[:, None] + np.arange(max(1, size // self.granule))

    @staticmethod
    def _own(machine: Machine, rows: Array) -> tuple[Array, Array, Array]:
        """Return the unit, warp and clock [N, 1] of rows."""
        warp = machine.agent_of_row[rows]
        clock = machine.clocks[rows, warp]
        return machine.unit_of_row[rows][:, None] + 1, warp[:, None], clock[:, None]

    # -- requirements ---------------------------------------------------------------------------

    def _read(self, access: _Access, state: _State) -> None:
        """Check that a weak read comes after the last write, which is known from then on."""
        self._require(access, state.writes, None, state)
        state.reads.set(access.granule, *self._own(access.cohort.machine, access.rows))

    def _require_no_loss(
        self, access: _Access, state: _State, changes: Array, *, strong: bool
    ) -> None:
        """Check that a write comes after the earlier writes and reads of the granules that it
        ``changes`` [N, k or 1]; strong accesses need no order among each other."""
        if not any_of(changes):
            return
        if strong:
            weak = changes & ~state.strong[access.granule]
            if any_of(weak):
                self._require(access, state.writes, weak, state)
            return
        self._require(access, state.writes, changes, state)
        self._require(access, state.reads, changes, None)

    def _require(
        self, access: _Access, marks: _Marks, where: Array | None, state: _State | None
    ) -> None:
        """Check that the accesses come after those in ``marks`` (writes, if their ``state`` is
        given), where this matters (``where`` [N, k or 1])."""
        machine, rows, granule = access.cohort.machine, access.rows, access.granule
        unit, writer, clock = marks.unit[granule], marks.writer[granule], marks.clock[granule]
        own_unit, own_warp, _ = self._own(machine, rows)
        same = unit == own_unit
        agent = machine.writers[np.where(same, writer, own_warp)]
        bad = same & (machine.clocks[rows[:, None], agent] < clock)
        foreign = (unit > 0) & ~same
        if where is not None:
            bad &= where
            foreign &= where
        if any_of(foreign):
            bad[foreign] = self._unknown(access, foreign, unit, writer, clock)
        if any_of(bad):
            self._fail(access, bad, marks, state)
        if access.bulk and state is not None:
            fenced = machine.clocks[rows[:, None], machine.agents + agent]
            bad = same & (fenced < clock) & machine.generic_agent[agent]
            if where is not None:
                bad &= where
            if any_of(bad):
                self._fail_proxy(access, bad, marks, state)

    def _unknown(
        self, access: _Access, foreign: Array, unit: Array, writer: Array, clock: Array
    ) -> Array:
        """Return which accesses of other units [N, k], where ``foreign``, were not acquired."""
        machine = access.cohort.machine
        rows = np.broadcast_to(access.rows[:, None], foreign.shape)
        parts = (rows, unit - 1, writer, clock)
        keys = list(zip(*(p[foreign].tolist() for p in parts), strict=True))
        known = {key: self.releases.knows(machine, *key) for key in dict.fromkeys(keys)}
        return np.array([not known[key] for key in keys])

    # -- errors ---------------------------------------------------------------------------------

    def _fail(self, access: _Access, bad: Array, marks: _Marks, state: _State | None) -> NoReturn:
        """Raise an error for the first bad granule of [N, k]: it says what accessed it, and what
        would order the accesses."""
        machine = access.cohort.machine
        at, place = _first(access, bad)
        who = self._name(machine, marks, place)
        what = "a read" if state is None else "a write"
        if state is not None:
            what += f" ({machine.site_of(int(state.step[place]))})"
        order = self._order(machine, int(access.rows[at]), marks, place)
        message = f"expected {order} between {what} by {who} and this instruction"
        self._raise(RaceError, message, access, at, place)

    def _fail_proxy(self, access: _Access, bad: Array, marks: _Marks, state: _State) -> NoReturn:
        machine = access.cohort.machine
        at, place = _first(access, bad)
        who = self._name(machine, marks, place)
        wrote = machine.site_of(int(state.step[place]))
        message = (
            f"expected fence.proxy.async between a write ({wrote}) by {who} and this bulk copy"
        )
        self._raise(MissingFenceError, message, access, at, place)

    @staticmethod
    def _name(machine: Machine, marks: _Marks, place: int) -> str:
        kind, number, warp = _writer(machine, marks, place)
        return f"{'bulk copies of ' * kind}warp {warp} of block number {number}"

    @staticmethod
    def _order(machine: Machine, row: int, marks: _Marks, place: int) -> str:
        """Say what would order a row's access after the previous access to a granule."""
        kind, number, warp = _writer(machine, marks, place)
        own = int(machine.numbers[machine.block_of_row[row]])
        needed: list[str] = ["cp.async.bulk.wait_group without .read"] * kind
        if number != own:
            needed.append("a release and an acquire of gpu scope")
        elif warp != machine.warp_of_row[row] or not kind:
            needed.append("a barrier")
        return ", ".join(needed)

    def _raise(
        self,
        error: type[RaceError | MissingFenceError],
        message: str,
        access: _Access,
        at: int,
        place: int,
    ) -> NoReturn:
        c, allocation = access.cohort, access.allocation
        address = allocation.base + place * self.granule
        bad = access.lanes & (c.rows == access.rows[at])[:, None]
        c.machine.fail(
            error,
            f"{message}, which {access.verb} the same byte {place * self.granule} of "
            f"{allocation.name}, address {address:#x}",
            c,
            bad,
            np.full((c.n, 32), address),
        )


def _first(access: _Access, bad: Array) -> tuple[int, int]:
    """Return the access and the granule of the first true element of [N, k]."""
    at = int(np.argmax(bad.any(axis=1)))
    return at, int(access.granule[at, int(np.argmax(bad[at]))])


def _writer(machine: Machine, marks: _Marks, place: int) -> tuple[int, int, int]:
    """Return the writer of a granule: 1 for bulk copies and 0 otherwise, the number of its block,
    and its warp in the block."""
    kind, warp = divmod(int(marks.writer[place]), machine.domain_warps)
    block, warp = divmod(warp, machine.warps_per_block)
    return kind, (int(marks.unit[place]) - 1) * machine.cluster_blocks + block, warp
