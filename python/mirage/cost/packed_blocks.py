"""Small blocks of which the compiler lets several run as one (``mirage-pack-blocks``)."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.target import Target
from mirage.cost.uniform import somewhere, where

MOST_WARPS = 8
"""The most warps of a block that consists of several."""
MOST_STORED = 32.0
"""The most bytes that a thread of such blocks stores. (RMSNorm of 512 rows of 262,144 f16, whose
last kernel has 256 bytes a thread: 197.9 µs in blocks of two warps, 202.1 packed.)"""
FEWEST_WAVES = 2.0
"""Blocks that are packed are at least this many times those that run at once."""


def packed_together(f: KernelFeatures, target: Target) -> Num:
    """Return the number of a kernel's blocks that run as one, 1 if each is a block of its own. Only
    warps that need no shared memory and do not wait for each other can be packed; before a kernel
    is written, these are the warps of blocks without loops, products and exchanges."""
    at_once = np.minimum(target.threads_sm // (32.0 * f.warps), float(target.blocks_sm))
    many = (f.blocks >= FEWEST_WAVES * at_once * target.sms) & (2.0 * f.warps <= MOST_WARPS)
    small = many & (np.asarray(f.steps) <= 1) & np.logical_not(f.multiplies)
    small = small & (np.asarray(f.exchanges_once) <= 0) & (np.asarray(f.cluster) <= 1)
    small = small & (f.dram_write <= MOST_STORED * 32.0 * f.warps * f.blocks)
    if f.known is not None:
        small = small & (np.asarray(f.known.shared) <= 0)
    if not somewhere(small):
        return 1.0
    found: Num = 1.0
    for number in range(2, MOST_WARPS + 1):
        fits = small & (number * f.warps <= MOST_WARPS) & (np.mod(f.blocks, number) == 0)
        found = where(fits, float(number), found)
    return found
