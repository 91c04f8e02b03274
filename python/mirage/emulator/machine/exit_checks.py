"""Checks of the conditions that must hold when a block exits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mirage.emulator.errors import MissingWaitError
from mirage.emulator.launch_order import Waits

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


def check_exit(machine: Machine) -> None:
    """Check, when all threads have ended, that they have waited for earlier grids, and that
    nothing can still read or write the blocks' shared memory."""
    if not machine.checks:
        return
    missing = np.argwhere(machine.valid & ~machine.waited)
    if machine.waits is not Waits.NOWHERE and len(missing):
        raise MissingWaitError(
            "expected griddepcontrol.wait before the thread ends, as later grids wait for this "
            "one only",
            site=machine.program.kernel.body[-1].site,
            thread=machine.thread(*map(int, missing[0])),
        )
    if "bulk_store" in machine.program.features:
        agent = machine.bulk_agent + machine.agent_of_row
        seen = machine.clocks[np.arange(machine.warps), agent]
        late = np.nonzero(machine.bulk_issued > seen)[0]
        if len(late):
            raise MissingWaitError(
                "expected cp.async.bulk.wait_group before the warp exits: its bulk copies "
                "may still read shared memory",
                site=machine.program.kernel.body[int(machine.bulk_step[late[0]])].site,
                thread=machine.thread(int(late[0])),
            )
    for barrier in machine.mbarriers.table.values():
        if barrier.in_flight:
            raise MissingWaitError(
                f"expected a wait on {machine.mbarriers.name(barrier.flat)} before the block "
                f"exits: {barrier.in_flight} bytes of bulk copies into shared memory are "
                "never waited for",
                site=machine.program.kernel.body[barrier.copied_at].site,
                thread=barrier.copied_by,
                address=barrier.flat % machine.shared.stride,
            )
    if machine.cluster_blocks > 1:
        machine.shared.races.require_no_remote_access()
        machine.mbarriers.require_no_remote_use()
