"""Order of accesses to shared memory by the lanes of one warp: two of them that exchange a value
must be separated by bar.warp.sync, or any barrier."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from mirage.emulator.errors import RaceError
from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.granules import SEVERAL, Access, Granules, first_of


class LaneOrder:
    """The last lanes that wrote and read each granule."""

    def __init__(self, granules: Granules) -> None:
        self._granules = granules
        self._machine = machine = granules.machine
        total = len(granules.write_clock)
        self._write_lane = np.zeros(total, np.int8)
        self._reader = np.full(total, -1, np.int16)
        self._read_lane = np.zeros(total, np.int8)
        # For each warp, the clock at its last wait for its own copies, and the last copy that was
        # waited for before that clock.
        self._waited = np.zeros(machine.warps, np.int32)
        self._shared_copies = np.zeros(machine.warps, np.int32)

    def waited(self, rows: Array, seen: Array) -> None:
        """Record that rows wait for their own copies, of which those up to ``seen`` [n] are already
        done."""
        machine = self._machine
        now = machine.clocks[rows, machine.agent_of_row[rows]]
        again = self._waited[rows] == now  # without a barrier since the last wait
        self._shared_copies[rows] = np.where(again, self._shared_copies[rows], seen)
        self._waited[rows] = now

    def read(self, access: Access, lane: Array) -> None:
        """Check that a lane reads a value that another lane of the warp wrote, or copied and waited
        for, only after bar.warp.sync (or any barrier): until then the warp's clock does not
        advance."""
        granule, own, clock = access.granule, *self._now(access)
        lane, rows = lane[:, None], access.rows[:, None]
        agent, written = self._granules.write_agent[granule], self._granules.write_clock[granule]
        bad = (agent == own) & (written == clock)
        copied = (agent == own + self._machine.copy_agent) & (self._waited[rows] == clock)
        bad |= copied & (written > self._shared_copies[rows])
        bad &= (self._write_lane[granule] != lane) | (lane == SEVERAL)
        if any_of(bad):
            self._fail_lanes(access, bad, self._write_lane, "the write")
        lanes = np.broadcast_to(lane, granule.shape)
        before = (self._reader[granule] == own) & (self._granules.read_clock[own, granule] == clock)
        others = before & (self._read_lane[granule] != lanes)
        self._reader[granule] = own
        self._read_lane[granule] = lanes
        others |= self._read_lane[granule] != lanes  # several lanes at a time
        self._read_lane[granule[others]] = SEVERAL

    def written(self, access: Access, lane: Array) -> None:
        """Check that memory which another lane of the warp still reads is not written before
        bar.warp.sync."""
        granule, own, clock = access.granule, *self._now(access)
        bad = (self._reader[granule] == own) & (self._granules.read_clock[own, granule] == clock)
        bad &= (self._read_lane[granule] != lane[:, None]) | (lane[:, None] == SEVERAL)
        if any_of(bad):
            self._fail_lanes(access, bad, self._read_lane, "the read")
        lanes = np.broadcast_to(lane[:, None], granule.shape)
        self._write_lane[granule] = lanes
        self._write_lane[granule[self._write_lane[granule] != lanes]] = SEVERAL

    def _now(self, access: Access) -> tuple[Array, Array]:
        """Return the warps' agents and own clocks [N, 1]."""
        own = self._machine.agent_of_row[access.rows]
        return own[:, None], self._machine.clocks[access.rows, own][:, None]

    def _fail_lanes(self, access: Access, bad: Array, lanes: Array, what: str) -> NoReturn:
        other = int(lanes[access.granule[first_of(bad)]])
        who = "other lanes" if other == SEVERAL else f"lane {other}"
        self._granules.fail(
            access,
            bad,
            RaceError,
            f"expected bar.warp.sync between {what} by {who} of this warp and this instruction, "
            f"which {access.verb} the same bytes",
        )
