"""The predicted cost of a whole program: of its kernels and of the single ops between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat

from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.copy_kernels import copies_in, moves_elements, unfused_in, unfused_report
from mirage.cost.cost_report import CostReport
from mirage.cost.features import Resources, features_of
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.kernel_time import report
from mirage.cost.overlapping_views import Cut, read_from_memory
from mirage.cost.target import Target
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Value,
    launches,
)


def features_in(
    graph: KernelGraph, target: Target, compiled: Sequence[Resources | None] = ()
) -> list[KernelFeatures]:
    """Return the features of each kernel of a graph. Values that an earlier kernel has just written
    are read from L2.

    ``compiled`` are the resources of each launch, in order, or None where they are not known.
    """
    found: list[KernelFeatures] = []
    written: set[Value] = set()
    copies = copies_in(graph)
    cuts = {
        op.results[0]: Cut(op.operands[0], op.cut_at)
        for op in graph.ops
        if op.cut_at is not None and op not in copies
    }
    for op in graph.ops:
        if isinstance(op, Launch):
            hot = {v for v in op.operands if v in written and v.type.bytes < target.l2_size / 2}
            resources = compiled[len(found)] if compiled else None
            once = read_from_memory(op, cuts)
            found.append(features_of(op, hot, resources, once))
        view = op.renames or isinstance(op, Lookup) or (moves_elements(op) and op not in copies)
        if not view or not written.isdisjoint(op.operands):
            written.update(op.results)  # a view of an input is not in the cache either
    return found


def predict(
    graph: KernelGraph, target: Target, compiled: Sequence[Resources | None] = ()
) -> CostReport | None:
    """Predict the cost of a graph's kernels, including those of single ops; None if one of them
    exceeds a limit of ``target``. ``compiled`` are the resources of each launch, or None for those
    that are not compiled: only these are held to the limits, since the others fit.
    """
    try:
        for op, resources in zip(launches(graph.ops), compiled or repeat(None)):
            if resources is None:
                check_launch(op, target)
    except CheckError:
        return None
    parts = tuple(report(f, target) for f in features_in(graph, target, compiled))
    if not all(math.isfinite(p.time) for p in parts):
        return None
    others = (unfused_report(op, target) for op in unfused_in(graph))
    return CostReport.sequence((*parts, *others), target)
