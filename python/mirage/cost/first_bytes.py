"""The time until a kernel has its first bytes, alone and behind another kernel."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.target import Target

FIRST_LOAD = 0.6
"""The share of the time until the first byte arrives that nothing hides. Blocks that load all of
their data at once wait one after the other: softmax of 4096 columns takes 22.1 µs with one block of
eight rows on an SM at a time, 21.2 with two, 18.8 with three of four rows, 18.3 with twelve of one
row by two warps (a copy takes 18.0)."""

HOT = 0.6
"""The share of the time until the first byte arrives if the data is in L2."""


LITTLE = 0.125
"""The share of what blocks load below which what comes from memory does not count: a mask beside
scores that the kernel before has stored."""


def from_memory(f: KernelFeatures) -> Num:
    """Return whether a kernel waits for memory at first, not only for L2."""
    return np.asarray(f.dram_read) > LITTLE * f.blocks * (f.load_once + f.load_step * f.steps)


def after_another(target: Target, memory: bool = True) -> float:
    """Return the µs that a kernel takes more if it follows another one than by itself; ``memory``
    says whether it waits for memory at first. If it starts before that one ends, as dependent
    launches do, this is less than 0: its launch is over when its turn comes, and its first bytes
    from memory, which no kernel right before it writes, are there. What it reads from L2 is asked
    for only then. (The norm of eight rows, stored, and a product with 1024 x 4096 weights take
    6.05 µs in two kernels; 3.1 and 4.3 are predicted by themselves.)"""
    if not target.starts_early:
        return target.combine
    first = FIRST_LOAD * target.latency
    return target.combine - target.launch - (first if memory else (1.0 - HOT) * first)
