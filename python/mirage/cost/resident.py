"""Blocks that compute several tiles one after the other, if that takes less time."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.occupancy import resident_blocks
from mirage.cost.target import Target
from mirage.semantics.ugraph import Launch, Reduce, all_ops, loops


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
