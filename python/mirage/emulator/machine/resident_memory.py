"""Shared memory of the resident blocks: addresses, bytes, and checks of accesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mirage.emulator.errors import EmulatorError, MisalignedAccessError, OutOfBoundsError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.memory import CARRIER, RANK_SHIFT, SHARED_RESERVED
from mirage.emulator.machine.races import RaceCheck

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


class SharedMemory:
    """`size` bytes for each resident block, the system's first KiB included."""

    def __init__(self, machine: Machine, size: int, granule: int, readers: int) -> None:
        self.machine = machine
        self.size = size
        self.stride = -(-size // 128) * 128
        self.data = np.full(machine.blocks * self.stride, 0xFF, np.uint8)
        self.races = RaceCheck(machine, self.stride // granule, granule, readers)

    def flatten(self, c: Cohort, address: Array, size: int, align: int = 0) -> Array:
        """Return each lane's byte index in `data` [n, 32]; inactive lanes get a harmless one."""
        align = align or size
        address = c.spread(address)
        block = self.machine.block_of_row[c.rows][:, None]
        own = address >> RANK_SHIFT
        if any_of(own):
            rank = own - 1
            cluster = self.machine.cluster_blocks
            remote = (own > 0) & (rank < cluster)
            if self.machine.checks:
                others = remote & (rank != block % cluster)
                self.machine.cluster_barriers.require_started(c, others, address)
            offset = np.where(remote, address & ((1 << RANK_SHIFT) - 1), address)
            block = np.where(remote, block // cluster * cluster + rank, block)
            self.races.remote(c.rows)
        else:
            offset = address
        self._require(
            c,
            (offset >= SHARED_RESERVED) & (offset <= self.size - size),
            address,
            OutOfBoundsError,
            f"expected a shared address from {SHARED_RESERVED} to {self.size - size} "
            f"({self.size - SHARED_RESERVED} bytes), got {size} bytes at {{address:#x}}",
        )
        if align > 1:
            self._require(
                c,
                (offset & (align - 1)) == 0,
                address,
                MisalignedAccessError,
                f"expected a shared address that is a multiple of {align}, got {{address:#x}}",
            )
        flat = block * self.stride + offset
        return flat if c.mask is None else np.where(c.mask, flat, SHARED_RESERVED)

    def _require(
        self, c: Cohort, good: Array, address: Array, error: type[EmulatorError], message: str
    ) -> None:
        bad = ~good if c.mask is None else ~good & c.mask
        if any_of(bad):
            self.machine.fail(error, message, c, bad, address)

    def load(self, c: Cohort, address: Array, size: int, *, collective: bool = False) -> Array:
        """Return carriers [n, 32]; `collective`: lanes load for each other."""
        flat = self.flatten(c, address, size)
        if self.machine.checks:
            lane = self.races.lanes(c, collective=collective)
            self.races.read(c, *self.races.spread(c, flat, size), lane=lane)
        return self.data.view(CARRIER[size])[flat // size]

    def store(
        self, c: Cohort, address: Array, value: Array, size: int, *, collective: bool = False
    ) -> None:
        """Write carriers [n, 32] of the active lanes; `collective`: lanes store for each other."""
        flat = self.flatten(c, address, size)
        if self.machine.checks:
            lane = self.races.lanes(c, collective=collective)
            self.races.write(c, *self.races.spread(c, flat, size), lane=lane)
        self.put(c, flat, value, size)

    def put(self, c: Cohort, flat: Array, value: Array, size: int) -> None:
        """Write carriers [n, 32] of the active lanes at byte indices, unchecked."""
        view = self.data.view(CARRIER[size])
        if c.mask is None:
            view[flat // size] = value
        else:
            view[flat[c.mask] // size] = value[c.mask]
