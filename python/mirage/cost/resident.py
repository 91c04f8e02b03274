"""Blocks that compute several tiles one after the other, if that takes less time."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.features import features_of
from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.kernel_time import estimate, report
from mirage.cost.occupancy import occupancy, resident_blocks
from mirage.cost.shared_memory_bound import STORE_BYTES
from mirage.cost.target import Target
from mirage.semantics.ugraph import Launch, Reduce, all_ops, loops

GROUP_ROWS = 16.0
"""The rows of a tile for each warp, if groups of four warps own rows."""


def time_if_resident(f: KernelFeatures, target: Target) -> Num:
    """Return the µs of kernels, given by their blocks of one tile each, in blocks that compute
    several tiles; infinite where they cannot. They store through two slots of each row, which are
    assumed to be those of groups that own rows: the launch that is written decides."""
    several = np.asarray(f.warpgroups, dtype=bool) & (np.asarray(f.sfu_step) == 0)
    if not np.any(several):
        return np.inf
    slots = np.where(several, 2.0 * STORE_BYTES * GROUP_ROWS * f.warps, 0.0)
    apart = several & (np.asarray(f.warps) > 4)
    longer = replace(f, resident=several, apart=apart, shared_once=f.shared_once + slots)
    again = several & (occupancy(longer, target).waves > 1)
    return np.where(again, estimate(longer, target)["time"], np.inf)


def with_resident_blocks(launch: Launch, target: Target) -> Launch:
    """Return the launch, or the same launch with only as many blocks as run at a time, each of
    which starts the next tile while it stores one; whichever is predicted to be faster."""
    if not launch.schedule.warpgroups or any(loop.steps is not None for loop in loops(launch)):
        return launch
    if any(isinstance(op, Reduce) for op in all_ops(launch.inside)):
        return launch  # the exchange of warps would need memory in addition to the double buffer
    # loops that compute between products take turns, which are counted from a block's start
    features = features_of(launch)
    if np.any(features.sfu_step):
        return launch
    started = resident_blocks(features, target)
    if prod(a.extent for a in launch.grid) <= started:
        return launch
    longer = replace(launch, schedule=replace(launch.schedule, resident=started))
    try:
        check_launch(longer, target)
    except CheckError:
        return launch
    other = features_of(longer)
    if resident_blocks(other, target) < started:  # the store buffers leave room for fewer blocks
        return launch
    return longer if report(other, target).time < report(features, target).time else launch
