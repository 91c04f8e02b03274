"""Tensors that blocks read in one loop and read again in a later one: the second time from L2, if
it still holds them."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

import numpy as np

from mirage.cost.accountant import Accountant
from mirage.cost.kernel_features import MOST_AHEAD, KernelFeatures, Num
from mirage.cost.occupancy import Occupancy
from mirage.cost.target import Target
from mirage.cost.uniform import is_zero, where

HELD = 0.5
"""The share of L2 up to which all data is still there when it is read again. Beyond that, less is,
down to nothing for data of the size of L2: cyclic reads evict the data that is needed next.
(LayerNorm of 2048 rows of 65,536 in 512 blocks, which have 268 MB under way: 259.7 µs, and 224
predicted if L2 had them: the kernel that only reads takes as long as for twice its bytes.)"""
STORED = 0.5
"""The share of their results that blocks store between two readings of an element; L2 holds that,
too. (Softmax of 512 rows of 128,256, one row at a time on each SM, in 8 steps and then whole: 99.0
µs, 87 predicted, and 76 without this; with two rows at a time, 98.9.)"""


def evicted(f: KernelFeatures, target: Target, o: Occupancy) -> Num:
    """Return the bytes that come from device memory again. Blocks that run at once have their share
    of the tensors in flight, and each reads all of its part before it begins again."""
    if is_zero(f.again_read):
        return 0.0
    at_once = np.minimum(1.0, target.sms * o.together / f.blocks)
    under_way = (f.again_tensors + STORED * f.dram_write) * at_once / target.l2_size
    return f.again_read * np.clip((under_way - HELD) / (1.0 - HELD), 0.0, 1.0)


def behind_loop(f: KernelFeatures, target: Target) -> Num:
    """Return the µs in which a block loads a tile again after the loop that has read it, and
    everything else that it loads there: its SM receives that before anything can be stored, and no
    other work of the block overlaps with it. (Softmax of 2048 rows of 65,536 in a loop and then
    whole, with one block on an SM: 195.0 µs, 166 predicted without this, 198 with it; RMSNorm,
    which loads its gain there as well, 217.7.) If elements are loaded just before they are needed,
    few bytes are in flight: softmax of 512 rows of 128,256 takes 108.8 µs with 8 warps, 99.2 with
    16."""
    if is_zero(f.again_once):
        return 0.0
    in_flight = 4.0 * MOST_AHEAD * 32.0 * f.warps
    rate = where(f.late, np.minimum(target.sm_bytes, in_flight / target.latency), target.sm_bytes)
    return where(f.again_once > 0, f.load_once / rate, 0.0)


@dataclass
class Readings:
    """Which loops of a block have read which tensors so far, except tensors that L2 already holds.
    Loads of one tensor in the same loop, or outside of all, count once."""

    hot: Collection[Hashable] = ()
    _loops: dict[Hashable, set[Hashable]] = field(default_factory=dict[Hashable, set[Hashable]])

    def count(
        self,
        account: Accountant,
        tensor: Hashable,
        sizes: tuple[Num, Num],
        loop: Hashable,
        tile: Num,
    ) -> None:
        """Count that the outermost ``loop`` around a load (None if there is none) reads a tensor;
        ``sizes`` are its bytes and those of its contiguous runs, and a ``tile`` has so many."""
        if tensor in self.hot:
            return
        loops = self._loops.setdefault(tensor, set())
        if not loops:
            account.read(*sizes)
        elif loop not in loops:
            account.read_again(*sizes, anew=len(loops) == 1)
            if loop is None:
                account.features.again_once = account.features.again_once + tile
        loops.add(loop)
