"""Copies to shared memory that begin before the work that needs them: those outside of loops, if as
many blocks run at once when no two tiles share memory, and those of loops in which each step has a
slot of its own."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.occupancy import RESERVED, Occupancy
from mirage.cost.target import Target
from mirage.cost.uniform import is_zero, somewhere, where

ALONE_COPIED = 0.3
"""The share of :attr:`.Target.alone` if everything is copied at the start, and later products wait
for nothing. (Of the first eight candidates of 20 programs with few rows, by which it was chosen,
the choice takes 3.6 % longer than the best one on an H100, and 4.6 % with all of it.)"""


def late(f: KernelFeatures, target: Target, o: Occupancy) -> Num:
    """Return whether copies outside of loops begin only where what they copy is needed, because
    fewer blocks would run at once if all began first."""
    return o.together * (f.first + RESERVED) > target.shared_sm


def alone(f: KernelFeatures, target: Target, o: Occupancy) -> Num:
    """Return the additional µs of blocks that multiply without a loop."""
    if is_zero(f.mma_once):
        return 0.0
    waits = where(late(f, target, o), 1.0, ALONE_COPIED)
    return where((f.steps <= 1) & (f.mma_once > 0), target.alone * waits, 0.0)


def steps_ahead(f: KernelFeatures) -> Num:
    """Return how many steps of a loop are loaded ahead: one less than there are slots, or all of
    them if each step has a slot of its own."""
    whole = (np.asarray(f.stages) > 1) & (f.stages >= f.steps) & ~np.asarray(f.warpgroups, bool)
    return where(whole, f.steps, f.stages - 1.0) if somewhere(whole) else f.stages - 1.0
