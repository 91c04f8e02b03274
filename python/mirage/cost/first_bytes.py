"""The time until a kernel has its first bytes, by itself and after another kernel."""

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
"""If a smaller share of a block's loads than this comes from memory, it does not count: a mask, for
example, next to scores that the previous kernel has stored."""


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
