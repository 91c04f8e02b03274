"""The time until a kernel has its first bytes, by itself and after another kernel."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.target import Target
from mirage.cost.uniform import where

FIRST_LOAD = 0.6
"""The share of the time until the first byte arrives that nothing hides. Blocks that load all of
their data at once wait one after the other: softmax of 4096 columns takes 22.1 µs with one block of
eight rows on an SM at a time, 21.2 with two, 18.8 with three of four rows, 18.3 with twelve of one
row by two warps (a copy takes 18.0)."""

HOT = 0.6
"""The share of the time until the first byte arrives if the data is in L2."""


FEW_BLOCKS, FEW_BYTES = 8.0, 8192.0
"""The most blocks, and the most bytes in all, that do not wait for each other on their way from L2.
Measured for one block of 2 KB; a few are counted alike, so that one is not preferred."""


LITTLE = 0.125
"""If a smaller share of a block's loads than this comes from memory, it does not count: a mask, for
example, next to scores that the previous kernel has stored."""


def not_hidden(f: KernelFeatures) -> Num:
    """Return the share of the time until the first byte arrives that nothing hides, in addition to
    the sequential work of a block. Few bytes that few blocks read from L2 have no others in their
    way, and wait once. (512 sums of f32 become one in 1.49 µs, 2.11 predicted without this, and in
    0.95 to 1.02 µs after the kernel that stores them, 1.59.)"""
    read = f.blocks * (f.load_once + f.load_step * f.steps)
    few = (np.asarray(f.blocks) <= FEW_BLOCKS) & (np.asarray(read) <= FEW_BYTES)
    return where(few & (np.asarray(f.dram_read) <= 0), 0.0, FIRST_LOAD)


def from_memory(f: KernelFeatures) -> Num:
    """Return whether a kernel first waits for memory, and not only for L2."""
    return np.asarray(f.dram_read) > LITTLE * f.blocks * (f.load_once + f.load_step * f.steps)


def after_another(target: Target, memory: bool = True) -> float:
    """Return the additional µs of a kernel if it follows another one; ``memory`` says whether it
    first waits for memory. If it starts before the other one ends, like dependent launches, this is
    less than 0: its launch is complete when its turn comes, and its first bytes from memory, which
    the previous kernel does not write, have arrived. Data in L2 is requested only then. (The norm
    of eight rows, stored, and a product with 1024 x 4096 weights take 6.05 µs in two kernels; 3.1
    and 4.3 are predicted by themselves.)"""
    if not target.starts_early:
        return target.combine
    first = FIRST_LOAD * target.latency
    return target.combine - target.launch - (first if memory else (1.0 - HOT) * first)
