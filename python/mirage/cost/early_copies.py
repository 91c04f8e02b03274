"""Copies to shared memory that begin before the work that needs them: those outside of loops, if
equally many blocks run at once without sharing of memory between tiles, and those of loops in which
each step has its own slot."""

from __future__ import annotations

import numpy as np

from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.occupancy import RESERVED, Occupancy
from mirage.cost.target import Target
from mirage.cost.uniform import somewhere, where


def late(f: KernelFeatures, target: Target, o: Occupancy) -> Num:
    """Return whether copies outside of loops begin only where their data is needed, because fewer
    blocks would run at once if all copies began first."""
    return o.together * (f.first + RESERVED) > target.shared_sm


def steps_ahead(f: KernelFeatures) -> Num:
    """Return how many steps of a loop are loaded ahead: one less than there are slots, or all of
    them if each step has a slot of its own."""
    whole = (np.asarray(f.stages) > 1) & (f.stages >= f.steps) & ~np.asarray(f.warpgroups, bool)
    return where(whole, f.steps, f.stages - 1.0) if somewhere(whole) else f.stages - 1.0
