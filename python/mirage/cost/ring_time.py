"""The time of a loop that only multiplies tiles in rings of slots.

The constants are fitted to 84 measurements of products on an H200, whose tiles and rings were
chosen by hand (`test/python/cost/test_rings_as_measured.py`). If they are fitted without one size
of the products, the mean logarithmic error at that size is 0.073.
"""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.occupancy import Occupancy
from mirage.cost.uniform import is_zero, where

BOX_STEP = 0.165
"""The least µs of a step."""

SHARP = 16.0
"""The exponent of the norm that combines the time of the products with that of the turns of the
slots. Both proceed at the same time, but waits differ from tile to tile, so some of them are
visible if the turns take nearly as long as the products."""

WAIT, WAIT_BYTE, WAIT_LOADED, LOADED = 0.35, 6e-6, 0.7, 0.75
"""The µs from a slot's release to its next tile: for a tile without bytes, for each byte, and in
addition if device memory is busy for the share ``LOADED`` of the time or more. Below that share,
the addition grows with its square, as requests wait for each other. For 32 KB and a share of 0.38
(512 rows) that is 0.7 µs, for 24 KB and 0.7 or more (256 and 64 rows) 1.1 to 1.2."""

CLUSTER_STEP, GROUP_STEP = 0.02, 0.01
"""The additional µs of a step in a cluster, since all blocks of it release the slot; and for each
further group of warps that multiplies on an SM (128 rows by 64 columns of a tile: 16.1 µs by one
group, 16.9 by two; 128 by 128, 64 and 224 steps: 26.2 and 91.3 µs by one, 27.8 and 92.3 by two)."""

TOGETHER, APART = 64.0, 0.15
"""The number of steps after which blocks that never wait for a tile have drifted apart, and the
share by which each further step takes longer. 512 rows by 4096 columns in tiles of 128 by 128, with
3, 4, 5 and 6 slots: 38.1, 28.2, 27.2 and 27.0 µs for 64 steps, 133.7, 92.7, 100.7 and 102.0 for
224; in another run with 4, 5 and 6 slots 51.4, 53.3 and 53.4 for 128 steps, 98.0, 108.1 and 109.4
for 224. Four slots are enough for the wait. The presumed reason, which has not been verified, is
that L2 no longer serves a tile to several blocks at once."""


def turns_of_rings(f: KernelFeatures, o: Occupancy, busy: Num, memory: tuple[Num, Num]) -> Num:
    """Return the µs of the steps of one block: the longest of three times. They are the time for
    which the units are ``busy`` with its products (and those of the other blocks of its SM), the
    least time of its steps, and the time of the turns of its slots, each of which is read,
    released, and waits for the next tile. ``memory`` are the µs of device memory and of L2 in the
    kernel."""
    dram, l2 = memory
    share = dram / np.maximum(np.maximum(dram, l2), np.maximum(busy, 1e-9))
    busiest = np.minimum(share / LOADED, 1.0)
    wait = WAIT + WAIT_BYTE * f.load_step + WAIT_LOADED * busiest**2
    # rows in two lines are requested twice; shifted boxes do not wait for it (16 rows by 4096
    # columns, a depth of 4095, in tiles of 64 x 32 x 128 with 6 slots and one turned factor: 14.0)
    split = f.split_step - f.given_split_step
    if not is_zero(split):
        wait = wait * (1.0 + where(f.shifted, 0.0, split) / np.maximum(f.load_step, 1.0))
    busy = busy + GROUP_STEP * f.steps * (o.together * f.warps / 4.0 - 1.0)
    step = np.maximum(busy / f.steps, 1e-9)
    busy = busy + where(f.cluster > 1, CLUSTER_STEP, 0.0) * f.steps
    slots = np.maximum(f.stages - 1.0, 0.5)
    turns = (f.steps * wait + busy) / slots
    # blocks that start together stay together as long as the first of them waits for its tiles
    spare = np.clip(slots - (wait + step) / step, 0.0, 1.0)
    apart = APART * spare**2 * np.maximum(f.steps - TOGETHER, 0.0) * step * (o.waves <= 1)
    least = np.maximum(busy, f.steps * BOX_STEP)
    longest = np.maximum(least, turns)
    beside = np.minimum(least, turns) / longest
    return longest * (1.0 + beside**SHARP) ** (1.0 / SHARP) + apart
