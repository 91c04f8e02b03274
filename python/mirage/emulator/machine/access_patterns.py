"""The cost of the addresses of a warp: sectors of global memory, and passes through the banks of
shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.machine.cohort import Array

if TYPE_CHECKING:
    pass


def sectors(address: Array, active: Array | None, size: int, cache: dict[bytes, int]) -> int:
    """Return the number of 32-byte sectors that the accesses of each row touch, summed over
    rows."""
    return _patterns(address, active, size, cache, _count_sectors, 32)


def wavefronts(address: Array, active: Array | None, size: int, cache: dict[bytes, int]) -> int:
    """Return the number of passes through the 32 four-byte banks that each row needs, summed over
    rows."""
    return _patterns(address, active, size, cache, _count_wavefronts, 128)


def _patterns(
    address: Array,
    active: Array | None,
    size: int,
    cache: dict[bytes, int],
    count: Any,
    modulus: int,
) -> int:
    """Count equal rows once: counts depend only on the pattern relative to an aligned base."""
    if active is not None:
        address = np.where(active, address, -1)
        base = np.where(active, address, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        relative = np.where(active, address - base + base % modulus, -1)
    else:
        base = address.min(axis=1, keepdims=True)
        relative = address - base + base % modulus
    relative = np.ascontiguousarray(relative)
    repeat = 1
    if len(relative) > 1 and bool((relative == relative[0]).all()):
        repeat, relative = len(relative), relative[:1]
    total = 0
    for row in relative:
        key = row.tobytes() + bytes((size, modulus))
        known = cache.get(key)
        if known is None:
            known = cache[key] = count(row[row >= 0], size)
        total += known
    return total * repeat


def _count_sectors(row: Array, size: int) -> int:
    return len(np.unique(np.concatenate([row // 32, (row + size - 1) // 32])))


def _count_wavefronts(row: Array, size: int) -> int:
    """Count passes; 8- and 16-byte accesses are served in halves and quarters of a warp."""
    lanes = 32 if size <= 4 else 32 * 4 // size
    total = 0
    for start in range(0, len(row), lanes):
        part = row[start : start + lanes]
        words = np.unique((part[:, None] // 4 + np.arange(max(1, size // 4))).ravel())
        total += int(np.bincount(words % 32).max())
    return total
