"""Times at the ends of blocks that nothing overlaps: the work on the last loads, the stores, and
the first loads of the next blocks."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.kernel_kind import Kind
from mirage.cost.occupancy import Occupancy
from mirage.cost.target import Target
from mirage.cost.uniform import somewhere, where

STORED = 0.6
"""The share of L2's rate at which blocks store if they end together."""

GAP = 0.4
"""The share of the time between two waves of blocks for which other SMs do not compensate: an SM
loads nothing from the time when a block has all of its data until the next one has its first bytes,
unless it has other blocks. (Eight rows times 4096 x 4096 without a loop, one block on an SM at a
time, in two waves: 15.1 µs, 13.1 predicted without it; 16 rows in three waves 24.4, 17.2.)"""


LATE = 0.1
"""The share of an SM's whole work that comes after its loads, in addition to the work on the last
loads, if blocks do not end together."""


REQUESTED = 64.0
"""The bytes that a thread has requested at a time if it adds up what it loads: the assembler lets
four requests of 16 bytes run ahead (32 to 34 registers, for sums of 512 bytes a thread)."""


AHEAD = 256.0
"""The bytes that are on their way to such a thread over its whole time. (LayerNorm of 512 rows of
262,144 takes 269 µs with means by two warps a row without a loop, 260 by blocks of eight in a loop;
sums of 67 MB by 512 blocks of eight warps lose nothing.)"""


KEPT = 16.0
"""The most bytes of its loads that a thread keeps for each value that it computes. An elementwise
function waits for all of its operands, and a softmax for its maximum."""


IN_STEP = 12.0
"""The number of steps for which blocks that start together stay in step."""


def last_stores(f: KernelFeatures, kind: Kind, target: Target, o: Occupancy) -> Num:
    """Return the bytes that the last blocks store. Blocks that multiply and start together end
    together, and nothing overlaps these stores. (Attention to parts of the keys, whose blocks store
    their sums: 43 kernels are predicted with a mean log error of 0.04, and 0.14 without this.)"""
    at_end = np.minimum(1.0, target.sms * o.together / f.blocks) * f.dram_write
    return where(kind.multiplies, at_end, 0.0)


def on_arrival(f: KernelFeatures, kind: Kind, o: Occupancy) -> Num:
    """Return the share of a block's work that waits until its last loads are there. Blocks without
    a loop that only add up what they load work on each piece as it arrives. (Sums of 67 MB of f16
    by 512 blocks: 17.7 µs, 19.2 predicted if all of their additions came after the loads.)"""
    if not somewhere(kind.streams):
        return 1.0
    return where(kind.streams, _share(f, o, REQUESTED), 1.0)


def on_the_way(f: KernelFeatures, kind: Kind, o: Occupancy) -> Num:
    """Return the share of a block's loads outside of loops that are in flight at a time: all of
    them if it holds what it loads."""
    if not somewhere(kind.streams):
        return 1.0
    return where(kind.streams, _share(f, o, AHEAD), 1.0)


def _share(f: KernelFeatures, o: Occupancy, requested: float) -> Num:
    # a block also holds what it stores, like a copy, which computes nothing, and shared memory
    held = (requested + KEPT * f.values) * o.threads + f.dram_write / f.blocks + f.shared
    return np.minimum(1.0, held / np.maximum(f.load_once, 1.0))


def behind_loads(f: KernelFeatures, kind: Kind, o: Occupancy, last: Num, compute: Num) -> Num:
    """Return the µs of the work after all loads: ``last`` is that of one block on its last loads,
    and ``compute`` all work of an SM. Up to three blocks of an SM that end one after the other
    share the former, and some of the latter is late, too. Warps that multiply end together if all
    blocks run at once and have equally many steps, and after few steps nothing else is left. (Eight
    rows, normalized by their mean square, times 4096 x 4096 in one kernel: 10.6 µs, 11.2 predicted,
    and 11.6 if other work were late, too.)"""
    in_step = kind.multiplies & ~kind.groups & (o.waves <= 1) & _even(f)
    shared = where(in_step, 1.0, np.minimum(o.per_sm, 3.0))
    apart = np.maximum(0.0, 1.0 - IN_STEP / np.asarray(f.steps))
    return last / shared + LATE * where(in_step, apart, 1.0) * compute


def _even(f: KernelFeatures) -> Num:
    """Return whether all blocks have equally many steps."""
    return np.asarray(f.uneven) <= 1


def between_waves(f: KernelFeatures, kind: Kind, o: Occupancy, gap: Num) -> Num:
    """Return the µs for which too little is loaded because warps that multiply end before the next
    blocks load: ``gap`` is the time from the last bytes of one block to the first bytes of the
    next. Blocks of different numbers of steps end at different times, while others load."""
    warps = kind.multiplies & ~kind.groups & _even(f)
    if not somewhere(warps):
        return 0.0
    return where(warps, GAP * gap * (o.waves - 1.0) / o.together, 0.0)
