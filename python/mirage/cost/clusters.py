"""Blocks that copy tiles for each other, if that takes less time."""

from __future__ import annotations

from dataclasses import replace

from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.shared_tiles import given_loads
from mirage.cost.shifted_loops import shifted_loads
from mirage.cost.target import Target
from mirage.semantics.ugraph import Launch, loops

PAIR = 2
"""The number of blocks in a cluster. Clusters of four do not all run at once on an H200, since the
number of multiprocessors in some of its groups is not a multiple of four: 128 blocks take two
waves."""


def with_clusters(launch: Launch, target: Target) -> Launch:
    """Return the launch, or the same launch in pairs of blocks that copy tiles for each other,
    whichever is predicted to be faster."""
    schedule = launch.schedule
    if not schedule.warpgroups or schedule.resident % PAIR:
        return launch
    if any(loop.steps is not None for loop in loops(launch)):
        return launch  # neighbours may take different steps
    if shifted_loads(BlockAnalysis(launch)):
        return launch  # neighbours may begin at other places
    paired = replace(launch, schedule=replace(schedule, cluster=PAIR))
    if not given_loads(paired):
        return launch
    alone, together = (report(features_of(x), target).time for x in (launch, paired))
    return paired if together < alone else launch
