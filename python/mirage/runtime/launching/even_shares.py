"""Even shares of multiprocessors for kernels that start early.

A kernel that starts while the one before it still runs finds multiprocessors with unequal room. The
hardware gives its blocks to those that have the most: 64 blocks that add up what 256 others store
may all go to the eight of 132 multiprocessors that have one of those instead of two, and wait for
each other there. A kernel whose blocks all fit at once therefore asks for as much shared memory
as lets no multiprocessor take more than its share of them. Code and results are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mirage.runtime.launching.cuda_driver import check, driver


@dataclass(frozen=True)
class Multiprocessors:
    """How many multiprocessors a device has, and the shared memory in bytes that each has, that the
    system keeps for each block, and that a block may ask for."""

    count: int
    shared: int
    kept: int
    most: int

    def even_share(self, blocks: int, fitting: int, shared: int) -> int:
        """Return the bytes of dynamic shared memory that a block asks for. ``shared`` is what it
        needs, and with these, ``fitting`` of all ``blocks`` fit on a multiprocessor."""
        share = -(-blocks // self.count)
        if not share < fitting:
            return shared
        # With what is kept for each, these of one block more exceed the multiprocessor's.
        asked = (self.shared // (share + 1) - self.kept) // _UNIT * _UNIT + _UNIT
        return max(shared, min(asked, self.most))


_UNIT = 1024  # shared memory of blocks is handed out in smaller units than this, in bytes


@cache
def multiprocessors(device: int) -> Multiprocessors:
    """Return those of a device."""
    d = driver()
    handle = check(d.cuDeviceGet(device), f"device {device}")
    names = d.CUdevice_attribute
    return Multiprocessors(
        *(
            check(d.cuDeviceGetAttribute(a, handle), "multiprocessors")
            for a in (
                names.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                names.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                names.CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
                names.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )
        )
    )
