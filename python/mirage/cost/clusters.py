"""Blocks that copy tiles for each other, or share the work of one, if that takes less time."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.cluster_split import split_over_cluster
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

SHARERS, LEAST_SHARED = (4, 8, 16), 32768
"""The numbers of blocks that may share the work of one, and the fewest elements of a tile that is
stored for which they do."""


def with_clusters(launch: Launch, target: Target) -> Launch:
    """Return the launch, or the same launch in pairs of blocks that copy tiles for each other or in
    clusters that share the work of one, whichever is predicted to be the fastest."""
    schedule = launch.schedule
    if not schedule.warpgroups:
        return _shared(launch, target)
    if schedule.resident % PAIR:
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


def _shared(launch: Launch, target: Target) -> Launch:
    """Return the launch with its work shared by as many blocks as are predicted to be the fastest,
    if it reads long rows several times: one that has them in registers is no longer than that."""
    schedule = launch.schedule
    stored = max(prod(output.value.shape) for output in launch.body.outputs)
    again = any(True for _ in loops(launch)) and stored >= LEAST_SHARED
    if not again or schedule.cluster > 1 or not target.has_clusters:
        return launch
    ways = [replace(launch, schedule=replace(schedule, cluster=n)) for n in SHARERS]
    ways = [way for way in ways if split_over_cluster(way) is not None]
    return min((launch, *ways), key=lambda way: report(features_of(way), target).time)
