"""Address spaces, and access that is checked for bounds, alignment and initialisation.

Every global array has a window of its own in the 64-bit space, so an access outside an array hits
nothing. Shared addresses are byte offsets in the block's shared memory; the first KiB belongs to
the system, as on sm_90. An address from `mapa` carries the rank of its block plus one above bit 24.
Values move as *carriers*: unsigned integers of the access size (complex128 for 16 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.errors import (
    MisalignedAccessError,
    MissingWaitError,
    OutOfBoundsError,
    UninitialisedReadError,
)
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of
from mirage.emulator.machine.global_order import GlobalOrder
from mirage.emulator.machine.releases import Sync

if TYPE_CHECKING:
    pass

GLOBAL_BASE = 0x7F00_0000_0000
GLOBAL_WINDOW = 1 << 36
SHARED_WINDOW = 0x10_0000_0000
LOCAL_WINDOW = 0x20_0000_0000
PARAM_WINDOW = 0x30_0000_0000
WINDOW_BYTES = 1 << 32
SHARED_RESERVED = 1024
RANK_SHIFT = 24

CARRIER: dict[int, Any] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
    16: np.complex128,
}


@dataclass(eq=False)
class Allocation:
    """An array in global (or const) memory. `written` marks the written bytes if reads are checked;
    `dependent` is memory that the previous grid writes until griddepcontrol.wait."""

    name: str
    base: int
    data: Array
    written: Array | None = None
    dependent: bool = False

    def view(self, size: int) -> Array:
        """Return the bytes as carriers; an incomplete last carrier is left out."""
        whole = len(self.data) // size * size
        return self.data[:whole].view(CARRIER[size])


class GlobalMemory:
    """All allocations of a launch."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.order = GlobalOrder(16)

    def add(self, name: str, data: Array, written: Array | None = None) -> Allocation:
        """Place bytes [size] in a window of their own."""
        base = GLOBAL_BASE + (len(self.allocations) + 1) * GLOBAL_WINDOW
        allocation = Allocation(name, base, data, written)
        self.allocations.append(allocation)
        return allocation

    def find(self, address: int) -> Allocation | None:
        """Return the allocation whose window contains an address, in bounds or not."""
        index = (address - GLOBAL_BASE) // GLOBAL_WINDOW - 1
        return self.allocations[index] if 0 <= index < len(self.allocations) else None

    def locate(self, c: Cohort, address: Array, size: int) -> list[tuple[Allocation, Array, Array]]:
        """Return (allocation, lanes [n, 32] bool, byte offsets [n, 32]) for the active lanes.
        Offsets of other lanes are 0. Raises an error for lanes that are out of bounds or
        misaligned."""
        machine = c.machine
        active = c.active()
        if size > 1:
            bad = (address & (size - 1)) != 0
            if c.mask is not None:
                bad = bad & active
            if any_of(bad):
                machine.fail(
                    MisalignedAccessError,
                    f"expected a global address that is a multiple of {size}, got {{address:#x}}",
                    c,
                    bad,
                    address,
                )
        first = int(address[0, 0] if c.mask is None else address[active][0])
        allocation = self.find(first)
        if allocation is not None:
            offset = address - allocation.base
            good = (offset >= 0) & (offset <= len(allocation.data) - size)
            if c.mask is not None:
                good |= ~active
                offset = np.where(active, offset, 0)
            if all_of(good):
                if allocation.dependent and machine.checks:
                    check_dependent(c, allocation, active)
                return [(allocation, active, offset)]
        found: list[tuple[Allocation, Array, Array]] = []
        windows = (address - GLOBAL_BASE) // GLOBAL_WINDOW - 1
        for index in np.unique(windows[active]).tolist():
            lanes = active & (windows == index)
            if not 0 <= index < len(self.allocations):
                machine.fail(
                    OutOfBoundsError,
                    f"expected a global address inside an array, got {{address:#x}} "
                    f"({size} bytes), which is in none",
                    c,
                    lanes,
                    address,
                )
            allocation = self.allocations[index]
            offset = np.where(lanes, address - allocation.base, 0)
            bad = lanes & ((offset < 0) | (offset > len(allocation.data) - size))
            if any_of(bad):
                where = int(offset[bad][0])
                machine.fail(
                    OutOfBoundsError,
                    f"expected an access inside {allocation.name} ({len(allocation.data)} bytes), "
                    f"got {size} bytes at byte {where}",
                    c,
                    bad,
                    address,
                )
            if allocation.dependent and machine.checks:
                check_dependent(c, allocation, lanes)
            found.append((allocation, lanes, offset))
        return found

    def load(self, c: Cohort, address: Array, size: int, sync: Sync | None = None) -> Array:
        """Return carriers [n, 32] at addresses [n, 32]; 0 in inactive lanes. ``sync``: a strong
        access."""
        result: Array | None = None
        if sync is not None and c.machine.checks:
            self.order.releases.strong(c, address, sync, reads=True, writes=False)
        for allocation, lanes, offset in self.locate(c, address, size):
            index = offset // size
            view = allocation.view(size)
            if len(view) == 0:
                continue
            if allocation.written is not None and c.machine.checks:
                self.check_written(c, allocation, lanes, offset, address, size)
            if sync is None and c.machine.checks:
                self.order.read(c, allocation, lanes, offset, size)
            value = view[index]
            result = value if result is None else np.where(lanes, value, result)
        return np.zeros((c.n, 32), CARRIER[size]) if result is None else result

    @staticmethod
    def check_written(
        c: Cohort, allocation: Allocation, lanes: Array, offset: Array, address: Array, size: int
    ) -> None:
        written = allocation.written
        assert written is not None
        bad = np.zeros(offset.shape, bool)
        for byte in range(size):
            bad |= ~written[offset + byte]
        bad &= lanes
        if any_of(bad):
            where = int(offset[bad][0])
            c.machine.fail(
                UninitialisedReadError,
                f"expected {allocation.name} to be written before this read, but bytes "
                f"{where} to {where + size - 1} are not",
                c,
                bad,
                address,
            )

    def store(
        self, c: Cohort, address: Array, value: Array, size: int, sync: Sync | None = None
    ) -> None:
        """Write carriers [n, 32] of the active lanes. ``sync``: a strong access."""
        if sync is not None and c.machine.checks:
            self.order.releases.strong(c, address, sync, reads=False, writes=True)
        for allocation, lanes, offset in self.locate(c, address, size):
            if not allocation.data.flags.writeable:
                c.machine.fail(
                    OutOfBoundsError,
                    f"expected {allocation.name} to be only read, got a write",
                    c,
                    lanes,
                    address,
                )
            view = allocation.view(size)
            if c.machine.checks:
                changes = differs(view[offset[lanes] // size], value[lanes])
                strong = sync is not None
                self.order.write(c, allocation, lanes, offset, size, changes, strong=strong)
            if all_of(lanes):
                view[offset // size] = value
            else:
                view[offset[lanes] // size] = value[lanes]
            if c.machine.checks and sync is None:
                lost = differs(view[offset[lanes] // size], value[lanes])
                self.order.overwritten(c, allocation, lanes, offset, size, lost)
            if allocation.written is not None:
                flat = offset[lanes]
                for byte in range(size):
                    allocation.written[flat + byte] = True


def differs(first: Array, second: Array) -> Array:
    """Return where carriers [N] have different bits."""
    size = first.dtype.itemsize
    a, b = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (first, second))
    return np.asarray((a != b).any(axis=1))


def check_dependent(c: Cohort, allocation: Allocation, lanes: Array) -> None:
    """Check that memory of the previous grid is accessed only after griddepcontrol.wait."""
    bad = lanes & ~c.machine.waited[c.rows]
    if any_of(bad):
        c.machine.fail(
            MissingWaitError,
            f"expected griddepcontrol.wait before {allocation.name}, which the previous "
            "grid writes, "
            "is accessed",
            c,
            bad,
        )
