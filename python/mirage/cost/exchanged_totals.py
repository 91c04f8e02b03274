"""The time for which the blocks of a cluster, which share a row, wait for each other's totals.

Meanwhile they neither load nor store. On an H200 (µs, clusters x warps): RMSNorm of 262,144 columns
takes 159.9 in 16 x 8, four blocks on each SM, 164.0 in 8 x 16, two blocks, and 181.3 in 4 x 16, of
which one fits; softmax 155.4 in 16 x 4, 163.4 in 8 x 16 and 195.5 in 4 x 16; a copy takes 127. A
second exchange costs less than the first, since blocks are in step then: LayerNorm takes 174.3 with
the sums of elements and of their squares at once, and 185.7 with squares about the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.occupancy import Occupancy

Num = Any

WAIT, ALONE, FURTHER = 0.33, 0.9, 0.1
"""The µs of the first exchange for each doubling of the blocks of a cluster; those that are added
if a block is alone on its SM, so that nothing else is done there; and those of each further
exchange."""


def exchanged(f: KernelFeatures, o: Occupancy) -> Num:
    """Return the µs of the exchanges of all blocks that an SM runs one after the other; 0 for
    blocks that share nothing."""
    first = WAIT + ALONE / np.square(o.together)
    each = np.where(np.asarray(f.rounds) > 0, first + FURTHER * (f.rounds - 1.0), 0.0)
    return np.log2(f.cluster) * o.waves * each
