"""Even shares of multiprocessors for kernels that start early.

A kernel that starts while the one before it still runs finds multiprocessors with unequal room. The
hardware gives its blocks to those with the most room: 64 blocks that add up the results of 256
others may all go to the eight of 132 multiprocessors that have one of the 256 blocks instead of
two, and wait for each other there. A kernel whose blocks all fit at once therefore requests so much
shared memory that no multiprocessor can take more than its share of them. Code and results are the
same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mirage.runtime.launching.cuda_driver import check, driver


@dataclass(frozen=True)
class Multiprocessors:
    """The number of multiprocessors of a device, and the bytes of shared memory that each has, that
    the system keeps for each block, and that a block may request."""

    count: int
    shared: int
    kept: int
    most: int

    def even_share(self, blocks: int, fitting: int, shared: int) -> int:
        """Return the bytes of dynamic shared memory that a block requests. ``shared`` are the bytes
        that it needs; with these, ``fitting`` of all ``blocks`` fit on a multiprocessor."""
        share = -(-blocks // self.count)
        if not share < fitting:
            return shared
        # Together with the kept bytes, the bytes of one more block exceed those of the
        # multiprocessor.
        asked = (self.shared // (share + 1) - self.kept) // _UNIT * _UNIT + _UNIT
        return max(shared, min(asked, self.most))


_UNIT = 1024  # shared memory is allocated in smaller units than this, in bytes


@cache
def multiprocessors(device: int) -> Multiprocessors:
    """Return the multiprocessors of a device."""
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
