"""Blocks that copy tiles for each other, where that takes less time."""

from __future__ import annotations

from dataclasses import replace

from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.shared_tiles import given_loads
from mirage.cost.target import Target
from mirage.semantics.ugraph import Launch, loops

PAIR = 2
"""Blocks of a cluster. Four of them do not all run at once on an H200, some of whose groups of
multiprocessors have a number of them that is no multiple of four: 128 blocks take two waves."""


def with_clusters(launch: Launch, target: Target) -> Launch:
    """The launch, or the same one in pairs of blocks that copy tiles for each other: the one that
    is predicted to be faster."""
    schedule = launch.schedule
    if not schedule.warpgroups or schedule.resident % PAIR:
        return launch
    if any(loop.steps is not None for loop in loops(launch)):
        return launch  # neighbours may take different steps
    paired = replace(launch, schedule=replace(schedule, cluster=PAIR))
    if not given_loads(paired):
        return launch
    alone, together = (report(features_of(x), target).time for x in (launch, paired))
    return paired if together < alone else launch
