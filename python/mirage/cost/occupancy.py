"""The number of blocks of a kernel that run at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.cost.kernel_features import REGISTERS_MAX, KernelFeatures, Num
from mirage.cost.packed_blocks import packed_together
from mirage.cost.target import Target
from mirage.cost.uniform import somewhere, uniform, where

FEWEST_REGISTERS = 24
"""The fewest registers of a thread (setmaxnreg)."""
RESERVED = 1024.0
"""The bytes of shared memory that each block of an SM takes in addition to its own."""
ACCUMULATORS_MAX = 128
"""The f32 values per thread that loops may accumulate."""
ACCUMULATORS_OF_GROUPS = 144
"""The f32 values per thread that loops of warpgroups may accumulate. Warpgroups also have the
registers of the group that copies: enough for rows of 256 columns with their sums and maxima."""


@dataclass(frozen=True)
class Occupancy:
    """The number of blocks that run at once; ``feasible`` says whether the limits of the target are
    kept."""

    threads: Num  # the threads of a block that compute
    feasible: Num
    per_sm: Num  # blocks of the busiest SM, all waves together
    together: Num  # blocks of an SM at once
    waves: Num
    active: Num  # SMs that have a block
    packed: Num = 1.0  # blocks that run as one


def occupancy(f: KernelFeatures, target: Target) -> Occupancy:
    groups = uniform(f.warpgroups)
    threads = 32.0 * f.warps
    started = threads + where(groups, 128.0, 0.0)  # one more group, which copies
    registers = np.ceil(f.registers / 8.0) * 8.0
    held = registers * started
    if somewhere(groups):
        # if that is too much, the group that copies gives most of its registers to the others
        moved = registers * threads + FEWEST_REGISTERS * 128.0
        held = where(groups & (held > target.registers_sm), moved, held)
    shared = f.shared
    # (a floor after a division is faster than floor division, and equal for integers)
    by_memory = target.shared_sm / np.maximum(shared + RESERVED, 1.0)
    by_threads = np.minimum(target.threads_sm / started, target.registers_sm / held)
    packed = packed_together(f, target)
    by_blocks = packed * float(target.blocks_sm)
    resident = np.minimum(np.floor(np.minimum(by_memory, by_threads)), by_blocks)
    feasible = (shared <= target.shared_block) & (resident >= 1)
    if target.mma_group <= 0:
        feasible = feasible & ~groups
    if f.known is None:
        most = where(groups, ACCUMULATORS_OF_GROUPS, ACCUMULATORS_MAX)
        feasible = feasible & (f.values <= REGISTERS_MAX) & (f.accumulators <= most * threads)
    resident = np.maximum(resident, 1.0)
    per_sm = np.ceil(f.blocks / (packed * target.sms)) * packed
    together = np.minimum(per_sm, resident)
    waves = np.ceil(per_sm / together)
    active = np.minimum(f.blocks, target.sms)
    return Occupancy(threads, feasible, per_sm, together, waves, active, packed)


def resident_blocks(f: KernelFeatures, target: Target) -> int:
    """Return the number of blocks that run at a time on all multiprocessors."""
    return int(target.sms * np.asarray(occupancy(f, target).together))
