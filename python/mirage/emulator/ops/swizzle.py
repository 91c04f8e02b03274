"""Swizzles of bulk tensor copies and wgmma operands.

A swizzle of span S exchanges the 16-byte chunks inside each S-byte row of shared memory: the chunk
index (address bits 4 up) is xored with the row index inside a group (address bits 7 up). It is a
function of the address itself, not of the offset in a tile, so a tile that does not start at a
multiple of the pattern (8 * S bytes) is permuted differently than its offsets suggest.
"""

from __future__ import annotations

import numpy as np

from mirage.emulator.machine.cohort import Array

_MASK = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def swizzled(address: Array, span: int) -> Array:
    """Return where the byte with plain address `address` (int64) is; span 0, 32, 64 or 128."""
    return address ^ ((address >> 3) & np.int64(_MASK[span]))
