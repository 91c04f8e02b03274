"""Code that bulk copies share: their operands' values lane by lane, and accesses to global and
shared memory in the name of the asynchronous proxy.

Bytes move at once. A copy into shared memory is a write by its mbarrier's agent, which is ordered
only by a wait for that phase. A copy out of shared memory is a read by the warp's bulk agent, which
is ordered only by wait_group, and a write of global memory by another agent, which is ordered only
by wait_group without .read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mirage.emulator.errors import MisalignedAccessError, OutOfBoundsError, UninitialisedReadError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.mbarriers import Mbarrier
from mirage.emulator.machine.memory import SHARED_RESERVED, Allocation, check_dependent
from mirage.emulator.machine.operands import Reader
from mirage.emulator.ops.swizzle import swizzled

Combine = Callable[[Array, Array], Array]
"""A function that a reduction applies to the old and the copied values."""


@dataclass(frozen=True)
class Load:
    """The operands of a copy into shared memory."""

    target: Reader
    source: Reader
    barrier: Reader
    mask: Reader | None

    def places(self, c: Cohort) -> Places:
        """Return the operands' values."""
        mask = None if self.mask is None else grid(c, self.mask)
        return Places(grid(c, self.target), grid(c, self.barrier), mask)


@dataclass(frozen=True)
class Places:
    """The destinations of a copy: addresses and multicast masks [n, 32]."""

    target: Array
    barrier: Array
    mask: Array | None


def grid(c: Cohort, read: Reader) -> Array:
    return np.broadcast_to(read(c), (c.n, 32)).astype(np.int64)


def one(c: Cohort, i: int, lane: int) -> Array:
    mask = np.zeros((c.n, 32), bool)
    mask[i, lane] = True
    return mask


def require(c: Cohort, i: int, lane: int, value: int, align: int, what: str) -> None:
    if value % align:
        c.machine.fail(
            MisalignedAccessError,
            f"expected a {what} that is a multiple of {align}, got {value:#x}",
            c,
            one(c, i, lane),
            np.full((c.n, 32), value),
        )


def shared_byte(c: Cohort, i: int, lane: int, address: int, size: int, align: int) -> int:
    """Return the byte index in shared memory of one lane's address, like `SharedMemory.flatten`."""
    shared = c.machine.shared
    if SHARED_RESERVED <= address <= shared.size - size and address % align == 0:
        return int(c.machine.block_of_row[c.rows[i]]) * shared.stride + address
    lanes = c.masked(one(c, i, lane))
    where = np.full((c.n, 32), address, np.int64)
    return int(shared.flatten(lanes, where, size, align)[i, lane])


def count_in_flight(c: Cohort) -> None:
    if c.machine.stats:
        c.machine.note_in_flight(c)


def deliver(c: Cohort, load: Places, i: int, lane: int, data: Array, align: int, span: int) -> None:
    """Write bytes to shared memory (of several blocks with multicast) and complete them on the
    mbarrier."""
    machine = c.machine
    shared = machine.shared
    target = int(load.target[i, lane])
    require(c, i, lane, target, align, "shared address")
    flat = shared_byte(c, i, lane, target, len(data), align)
    bar = shared_byte(c, i, lane, int(load.barrier[i, lane]), 8, 8)
    places = [(flat, bar)]
    if load.mask is not None:
        chosen = int(load.mask[i, lane])
        block = int(machine.block_of_row[c.rows[i]])
        first = block // machine.cluster_blocks * machine.cluster_blocks
        if chosen >> machine.cluster_blocks or not chosen:
            machine.fail(
                OutOfBoundsError,
                f"expected a multicast mask of the {machine.cluster_blocks} blocks of the cluster, "
                f"got {chosen:#x}",
                c,
                one(c, i, lane),
            )
        ranks = [r for r in range(machine.cluster_blocks) if chosen >> r & 1]
        stride = shared.stride
        places = [
            ((first + r) * stride + flat % stride, (first + r) * stride + bar % stride)
            for r in ranks
        ]
    index = np.arange(0, len(data), 16)
    for to, barrier_at in places:
        barrier = machine.mbarriers.find(c, barrier_at, i, lane, proxy=True)
        base = to - to % shared.stride
        if machine.checks:
            shared.races.write(
                c,
                np.array([i]),
                shared.races.range(to, len(data)),
                agent=np.array([barrier.agent]),
                clock=np.array([barrier.phase + 1]),
                proxy=True,
            )
        chunk = (base + swizzled(to - base + index, span)) // 16
        shared.data.view(np.complex128)[chunk] = data.view(np.complex128)
        machine.mbarriers.complete_bytes(barrier, len(data), machine.thread(c.rows[i], lane))
        machine.note(bulk_copy_bytes=len(data))


def read_global(c: Cohort, i: int, lane: int, address: int, size: int) -> Array:
    """Return a copy of bytes of global memory."""
    allocation, part = _global_range(c, i, lane, address, size)
    if c.machine.checks:
        if allocation.written is not None and not allocation.written[part].all():
            c.machine.fail(
                UninitialisedReadError,
                f"expected {allocation.name} to be written before this copy of bytes {part.start} "
                f"to {part.stop - 1}, but part of it is not",
                c,
                one(c, i, lane),
            )
        note_read(c, i, lane, allocation, np.array([part.start]), size)
    return allocation.data[part].copy()


def write_global(
    c: Cohort, i: int, lane: int, address: int, data: Array, combine: Combine | None
) -> None:
    """Write bytes to global memory, or combine them with the bytes that are there."""
    allocation, part = _global_range(c, i, lane, address, len(data))
    require_writeable(c, i, lane, allocation)
    place = allocation.data[part]
    new = data if combine is None else combine(place, data)
    if c.machine.checks:
        start = np.array([part.start])
        note_write(c, i, lane, allocation, start, place != new, strong=combine is not None)
    place[...] = new
    if allocation.written is not None:
        allocation.written[part] = True


def require_writeable(c: Cohort, i: int, lane: int, allocation: Allocation) -> None:
    if not allocation.data.flags.writeable:
        c.machine.fail(
            OutOfBoundsError,
            f"expected {allocation.name} to be only read, got a write",
            c,
            one(c, i, lane),
        )


def note_read(
    c: Cohort, i: int, lane: int, allocation: Allocation, first: Array, size: int
) -> None:
    """Record that runs of ``size`` bytes that start at bytes ``first`` [N] are copied."""
    order = c.machine.memory.order
    order.bulk_read(c, allocation, one(c, i, lane), order.granules(first, size))


def note_write(
    c: Cohort,
    i: int,
    lane: int,
    allocation: Allocation,
    first: Array,
    changes: Array,
    *,
    strong: bool,
) -> None:
    """Record that runs of bytes that start at bytes ``first`` [N] are written. ``changes`` [N *
    bytes of a run], a multiple of 16, says which of them change. ``strong``: each is updated
    atomically."""
    order = c.machine.memory.order
    granule = order.granules(first, changes.size // first.size)
    of_each = np.asarray(changes.reshape(len(granule), order.granule).any(axis=1))
    order.bulk_write(c, allocation, one(c, i, lane), granule, of_each, strong=strong)


def _global_range(
    c: Cohort, i: int, lane: int, address: int, size: int
) -> tuple[Allocation, slice]:
    """Return the place of bytes of global memory within one array."""
    machine = c.machine
    allocation = machine.memory.find(address)
    offset = address - allocation.base if allocation else 0
    if allocation is None or offset < 0 or offset + size > len(allocation.data):
        where = f"byte {offset} of {allocation.name}" if allocation else f"{address:#x}"
        machine.fail(
            OutOfBoundsError,
            f"expected {size} bytes inside an array, got {where}",
            c,
            one(c, i, lane),
        )
    if allocation.dependent and machine.checks:
        check_dependent(c, allocation, one(c, i, lane))
    return allocation, slice(offset, offset + size)


def read_shared(
    c: Cohort,
    i: int,
    lane: int,
    source: Array,
    size: int,
    span: int = 0,
    align: int = 16,
    until: Mbarrier | None = None,
) -> Array:
    """Return bytes of shared memory, read in the name of the row's bulk agent, or of an mbarrier on
    which the copy completes."""
    machine = c.machine
    shared = machine.shared
    require(c, i, lane, int(source[i, lane]), align, "shared address")
    flat = shared_byte(c, i, lane, int(source[i, lane]), size, align)
    if machine.checks:
        row = c.rows[i]
        granule = shared.races.range(flat, size)
        shared.races.read(
            c,
            np.array([i]),
            granule,
            agent_base=machine.bulk_agent,
            clock=machine.bulk_group[[row]],
            proxy=True,
            record=until is None,
        )
        if until is not None:
            shared.races.copy_reads(granule, until.agent, until.phase + 1)
    if until is None:
        machine.bulk_issued[c.rows[i]] = machine.bulk_group[c.rows[i]]
        machine.bulk_step[c.rows[i]] = machine.step_index
    base = flat - flat % shared.stride
    chunk = (base + swizzled(flat - base + np.arange(0, size, 16), span)) // 16
    return shared.data.view(np.complex128)[chunk].view(np.uint8)
