"""Tiles that blocks of a cluster copy for each other (``Clusters.cpp`` in the compiler)."""

from __future__ import annotations

from math import prod

from mirage.cost.boxes import is_box
from mirage.semantics.ugraph import Launch, Source, loops

PART_ROWS = 8
"""The number of rows after which every swizzle of shared memory repeats: parts are cut in these
units."""


def given_loads(launch: Launch) -> frozenset[Source]:
    """Return the loads of loops of which a block copies only its part, and the others of its
    cluster the rest. These are the loads that do not depend on the cluster's axis, which is the
    axis whose independent loads have the most bytes.
    """
    blocks = launch.schedule.cluster
    if blocks == 1 or not launch.schedule.warpgroups:
        return frozenset()
    found = {
        load: float(load.result.type.size * load.operands[0].dtype.bytes * loop.axis.extent)
        for loop in loops(launch)
        for load in loop.body
        if isinstance(load, Source) and load.cuts and _has_parts(load, blocks)
    }
    best: tuple[float, frozenset[Source]] = 0.0, frozenset()
    for axis in launch.grid:
        if axis.extent % blocks:
            continue
        same = frozenset(load for load in found if axis.name not in load.reads_axes)
        total = sum(found[load] for load in same)
        if total > best[0]:
            best = total, same
    return best[1]


def _has_parts(load: Source, blocks: int) -> bool:
    rows = load.result.shape[:-1]
    wide = [n for n in rows if n > 1]
    if not wide or wide[0] % blocks or prod(rows) // blocks % PART_ROWS:
        return False
    return is_box(load.operands[0].type, load.result.shape)
