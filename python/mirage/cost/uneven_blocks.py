"""Blocks that the SMs of a chip do not share evenly: some SMs have one more block than others, or
the last wave is not full."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.occupancy import Occupancy
from mirage.cost.target import Target
from mirage.cost.uniform import somewhere, where

BEYOND = 0.5
"""The share of the lanes' work, on an SM with more blocks than others, that its loads do not hide,
as in a single block. (A normalized row times 4096 x 6144, multiplied in f32 without tensor cores:
192 blocks of 32 columns on 132 SMs take 16.5 to 17.8 µs, 96 of 64 columns 14.4.)"""


def tail(f: KernelFeatures, target: Target, o: Occupancy, memory: Num, chain: Num) -> Num:
    """Return the µs by which the last wave, if it is not full, exceeds its share of memory time:
    its blocks cannot be faster than a single block. The more waves of blocks that threads load were
    full, the further blocks have drifted apart, and the earlier those of the last wave start
    (products of warpgroups take equally long in all blocks)."""
    resident = target.sms * o.together
    full = np.floor(f.blocks / resident)
    rest = where(full >= 1, f.blocks - full * resident, 0.0)
    apart = where(f.warpgroups, 1.0, np.maximum(full, 1.0))
    later = np.maximum(chain - memory * rest / f.blocks, 0.0) / apart
    return where(rest > 0, later, 0.0)


def crowded(f: KernelFeatures, target: Target, o: Occupancy, lanes: Num) -> Num:
    """Return the µs by which the SMs that have more blocks than others end later, if all blocks run
    a loop at once: ``lanes`` are the µs of each block's computation, and loads hide half of what
    exceeds the average."""
    loops = (o.waves <= 1) & (np.asarray(f.steps) > 1)
    if not somewhere(loops):
        return 0.0
    more = o.per_sm - np.maximum(f.blocks / target.sms, 1.0)
    return where(loops, BEYOND * lanes * more, 0.0)


def thin(f: KernelFeatures, target: Target, o: Occupancy, dram: Num) -> Num:
    """Return the additional µs of device memory if only a few SMs have one more block than the
    others: once the others are done, less is in flight."""
    rest = f.blocks - np.floor(f.blocks / target.sms) * target.sms
    fewer = (f.blocks > target.sms) & (o.per_sm <= 3) & (rest > 0) & (f.steps > 1)
    if not somewhere(fewer):
        return 0.0
    held = np.maximum(f.shared_step * np.maximum(f.stages - 1.0, 0.5), 1.0)
    together = np.minimum(target.sms * o.together, f.blocks)
    missing = [
        np.minimum(target.flight_total / (held * np.maximum(blocks, 1.0)), 1e3)
        for blocks in (together, rest * o.together)
    ]
    slower = np.sqrt((1.0 + missing[1] ** 2) / (1.0 + missing[0] ** 2)) - 1.0
    return where(fewer, dram * rest / f.blocks * slower, 0.0)
