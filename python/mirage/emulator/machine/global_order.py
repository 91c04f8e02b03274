"""The order of accesses to global memory, between blocks and between the warps of a block.

Each element of memory that a kernel writes remembers its last writer and its last reader: a *unit*
(a cluster; a block where there are none), a warp of it, and the warp's clock
(:mod:`mirage.emulator.machine.races`). Within a unit the warps' clocks say who knows of whom.
Between units a warp knows what it has *acquired*: a release publishes, at an address, the clocks of
the warp that executes it and all that it has acquired itself; an acquire that reads from there
takes it over. What a warp of a unit acquired, others know as soon as they are ordered after it.

Two accesses to the same element, one a write, must be ordered, unless the write changes nothing
(blocks that store the same value), or both are strong (atomic, relaxed, volatile). One reader is
remembered, and what is read before the first write of an input is not: an order may be missed, but
none is asked for that is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.errors import RaceError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine
    from mirage.emulator.machine.memory import Allocation

Knowledge = dict[int, Array]
"""For each unit, the known clocks of its warps."""


@dataclass(frozen=True)
class Sync:
    """The effect of a strong access to global memory, or of a fence, on the order between
    blocks."""

    acquires: bool = False
    releases: bool = False


@dataclass(eq=False)
class _Marks:
    """The last accesses to each granule: the unit (from 1; 0: none), its warp and its clock."""

    unit: Array
    warp: Array
    clock: Array

    @staticmethod
    def of(count: int) -> _Marks:
        return _Marks(
            np.zeros(count, np.int32), np.zeros(count, np.int16), np.zeros(count, np.int32)
        )

    def set(self, granule: Array, unit: Array, warp: Array, clock: Array) -> None:
        self.unit[granule] = unit
        self.warp[granule] = warp
        self.clock[granule] = clock


@dataclass(eq=False)
class _State:
    """The state of one allocation: its last writers with their instructions, and its last
    readers."""

    writes: _Marks
    reads: _Marks
    step: Array
    strong: Array


@dataclass(frozen=True)
class _Acquired:
    """The event that a warp of a unit acquired, at its ``clock``, the known clocks of another
    unit."""

    warp: int
    clock: int
    known: Array


class GlobalOrder:
    """The state of global memory for all blocks of a launch, resident or not."""

    def __init__(self, granule: int) -> None:
        self.granule = granule
        self._states: dict[int, _State] = {}  # by the allocation's base
        self._published: dict[int, Knowledge] = {}  # by address
        self._acquired: dict[int, dict[int, list[_Acquired]]] = {}  # by unit, by unit known of
        self._fenced: dict[tuple[int, int], Knowledge] = {}  # by unit and warp
        self._seen: dict[tuple[int, int], list[Knowledge]] = {}

    # -- plain accesses -------------------------------------------------------------------------

    def read(
        self, c: Cohort, allocation: Allocation, lanes: Array, offset: Array, size: int
    ) -> None:
        """Check and record a weak read of active lanes."""
        state = self._state(allocation, create=allocation.written is not None)
        if state is None:
            return
        rows, granule = self._spread(c, lanes, offset, size)
        self._require(c, state.writes, rows, granule, "reads", lanes, allocation, state)
        state.reads.set(granule, *self._own(c.machine, rows))

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
        if any_of(changes) and not strong:
            changed, places = rows[changes], granule[changes]
            self._require(c, state.writes, changed, places, "changes", lanes, allocation, state)
            self._require(c, state.reads, changed, places, "changes", lanes, allocation, None)
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
        bad = (state.writes.unit[granule] != unit) | (state.writes.warp[granule] != warp)
        if any_of(bad):
            at = int(np.argmax(bad.any(axis=1)))
            place = int(granule[at, int(np.argmax(bad[at]))])
            self._fail(c, lanes, rows, at, allocation, place, state.writes, "changes", state)

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

    def _require(
        self,
        c: Cohort,
        marks: _Marks,
        rows: Array,
        granule: Array,
        verb: str,
        lanes: Array,
        allocation: Allocation,
        state: _State | None,
    ) -> None:
        """Check that an access is ordered after the accesses in ``marks`` (writes, if their
        ``state`` is given)."""
        machine = c.machine
        unit, warp, clock = marks.unit[granule], marks.warp[granule], marks.clock[granule]
        own_unit, own_warp, _ = self._own(machine, rows)
        same = unit == own_unit
        seen = np.take_along_axis(
            machine.clocks[rows], np.where(same, warp, own_warp).astype(np.int64), axis=1
        )
        bad = same & (seen < clock)
        foreign = (unit > 0) & ~same
        if any_of(foreign):
            for at, column in np.argwhere(foreign).tolist():
                who = int(unit[at, column]) - 1, int(warp[at, column])
                bad[at, column] = not self._knows(
                    machine, int(rows[at]), *who, int(clock[at, column])
                )
                if bad[at, column]:
                    break
        if not any_of(bad):
            return
        at = int(np.argmax(bad.any(axis=1)))
        column = int(np.argmax(bad[at]))
        place = int(granule[at, column])
        self._fail(c, lanes, rows, at, allocation, place, marks, verb, state)

    def _fail(
        self,
        c: Cohort,
        lanes: Array,
        rows: Array,
        at: int,
        allocation: Allocation,
        place: int,
        marks: _Marks,
        verb: str,
        state: _State | None,
    ) -> None:
        machine = c.machine
        unit, warp = int(marks.unit[place]) - 1, int(marks.warp[place])
        block, warp = divmod(warp, machine.warps_per_block)
        number = unit * machine.cluster_blocks + block
        own = int(machine.numbers[machine.block_of_row[rows[at]]])
        what = "a read" if state is None else "a write"
        if state is not None:
            what += f" ({machine.site_of(int(state.step[place]))})"
        order = "a barrier" if number == own else "a release and an acquire of gpu scope"
        where = (
            f"byte {place * self.granule} of {allocation.name}, address "
            f"{allocation.base + place * self.granule:#x}"
        )
        bad = np.zeros((c.n, 32), bool)
        bad[:] = lanes & (c.rows == rows[at])[:, None]
        machine.fail(
            RaceError,
            f"expected {order} between {what} by warp {warp} of block number {number} and this "
            f"instruction, which {verb} the same {where}",
            c,
            bad,
            np.full((c.n, 32), allocation.base + place * self.granule),
        )

    def _knows(self, machine: Machine, row: int, unit: int, warp: int, clock: int) -> bool:
        """Return whether a row is ordered after an access of another unit's warp at ``clock``."""
        return any(known[warp] >= clock for known in self._visible(machine, row, unit))

    def _visible(self, machine: Machine, row: int, unit: int) -> Iterator[Array]:
        own = int(machine.agent_of_row[row])
        for entry in self._acquired.get(int(machine.unit_of_row[row]), {}).get(unit, ()):
            if entry.warp == own or machine.clocks[row, entry.warp] >= entry.clock:
                yield entry.known

    # -- synchronisation ------------------------------------------------------------------------

    def fence(self, c: Cohort) -> None:
        """Apply a fence of gpu scope: earlier relaxed accesses acquire, later ones release."""
        machine = c.machine
        for row in c.rows.tolist():
            who = self._who(machine, row)
            for known in self._seen.pop(who, ()):
                self._acquire(machine, row, known)
            self._fenced[who] = self._knowledge(machine, row)
        machine.bump(c.rows)

    def strong(self, c: Cohort, address: Array, sync: Sync, *, reads: bool, writes: bool) -> None:
        """Record a strong access to global memory at ``address`` [n, 32] of the active lanes,
        before its value is written."""
        if not (sync.releases or sync.acquires or self._published or self._fenced):
            return
        machine = c.machine
        released: list[int] = []
        for i, row in enumerate(c.rows.tolist()):
            who = self._who(machine, row)
            places = np.unique(address[i][c.active()[i]]).tolist()
            published = self._fenced.get(who)
            if reads:
                for place in places:
                    known = self._published.get(place)
                    if known is not None and sync.acquires:
                        self._acquire(machine, row, known)
                    elif known is not None:
                        seen = self._seen.setdefault(who, [])
                        seen[:] = [*(k for k in seen if k is not known), known][-_SEEN:]
            if not writes:
                continue
            if sync.releases:
                published = self._knowledge(machine, row)
                released.append(row)
            for place in places:
                # a read-modify-write keeps what was released there before
                before = self._published.get(place, {}) if reads else {}
                if before or published:
                    self._published[place] = _joined(before, published or {})
                elif not reads:
                    self._published.pop(place, None)
        if released:
            machine.bump(np.array(released))

    @staticmethod
    def _who(machine: Machine, row: int) -> tuple[int, int]:
        return int(machine.unit_of_row[row]), int(machine.agent_of_row[row])

    def _knowledge(self, machine: Machine, row: int) -> Knowledge:
        """Return all clocks that a row knows."""
        own = int(machine.unit_of_row[row])
        known: Knowledge = {own: machine.clocks[row, : machine.domain_warps].copy()}
        for unit in self._acquired.get(own, {}):
            parts = list(self._visible(machine, row, unit))
            if parts:
                known[unit] = np.maximum.reduce(parts)
        return known

    def _acquire(self, machine: Machine, row: int, known: Knowledge) -> None:
        own, warp = self._who(machine, row)
        for unit, clocks in known.items():
            if unit == own:
                seen = machine.clocks[row, : machine.domain_warps]
                np.maximum(seen, clocks, out=seen)
                continue
            mine: Any = list(self._visible(machine, row, unit))
            if mine and (np.maximum.reduce(mine) >= clocks).all():
                continue
            entries = self._acquired.setdefault(own, {}).setdefault(unit, [])
            entries.append(_Acquired(warp, int(machine.clocks[row, warp]), clocks))


_SEEN = 64
"""The most relaxed reads that a fence turns into acquires."""


def _joined(first: Knowledge, second: Knowledge) -> Knowledge:
    joined = dict(first)
    for unit, clocks in second.items():
        joined[unit] = np.maximum(joined[unit], clocks) if unit in joined else clocks
    return joined
