"""The predicted times of a class's kernels at each of its sizes."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mirage.cost import CostReport, Target
from mirage.cost.predict import predict
from mirage.pipeline.size_bounds import ROWS
from mirage.semantics.ugraph import KernelGraph, Launch, Op, launches
from mirage.verify.other_rows import graph_at, having

SAMPLES = 9
"""The approximate number of sizes of a class at which kernels are compared."""
DEPTHS = (3, 4, 5, 6)
"""The numbers of pipeline stages that are compared; the cost of fewer stages is not predicted
well."""
TOLD_APART = 0.02
"""Predicted times whose relative difference is smaller count as equal."""
FAR = 1.1
"""A class is split if its kernels take more than this factor times the best at one of its sizes."""


def predicted_at(
    graph: KernelGraph, inputs: Collection[int], most: int, size: int, target: Target
) -> CostReport | None:
    """Predict the cost, at one size, of a graph for sizes up to ``most``; see
    :func:`~mirage.verify.other_rows.graph_at` and
    :func:`mirage.cost.predict.predict`."""
    return predict(graph_at(graph, inputs, most, size), target)


@dataclass(frozen=True)
class Compared:
    """Compares graphs for sizes from ``least`` to ``most`` by their predicted times at some of
    these sizes. ``inputs`` are the numbers of the inputs that have rows."""

    inputs: tuple[int, ...]
    least: int
    most: int
    target: Target

    def near_best_first(
        self, graphs: Sequence[KernelGraph], others: Sequence[KernelGraph] = ()
    ) -> list[int]:
        """Return the numbers of graphs, ordered by the largest ratio of their time to that of the
        best graph, which may be one of the ``others``, at any size. Differences below the precision
        of predictions do not change the order."""
        if len(graphs) < 2:
            return list(range(len(graphs)))
        times = [self._times(graph) for graph in graphs]
        more = [self._times(graph) for graph in others]
        best = [min(column) for column in zip(*times, *more, strict=True)]
        worst = [
            max(t / b if math.isfinite(b) else 1.0 for t, b in zip(row, best, strict=True))
            for row in times
        ]
        steps = [round((w - 1) / TOLD_APART) if math.isfinite(w) else math.inf for w in worst]
        return sorted(range(len(graphs)), key=lambda number: (steps[number], number))

    def tied_first(self, graphs: Sequence[KernelGraph]) -> list[int]:
        """Return the numbers of graphs in the order in which they may serve the class: first those
        that are as fast as the first one at the largest size, as far as predictions can tell, the
        nearest to the best at all sizes before the others, each at its own best depth; then the
        rest."""
        times = [self._time(graph, self.most) for graph in graphs]
        tied = [n for n, time in enumerate(times) if time <= times[0] * (1.0 + TOLD_APART)]
        every = [changed for number in tied for changed in _depths(graphs[number])]
        order = self.near_best_first([self.restaged(graphs[number]) for number in tied], every)
        return [
            *(tied[place] for place in order),
            *(n for n in range(len(graphs)) if n not in tied),
        ]

    def restaged(self, graph: KernelGraph) -> KernelGraph:
        """Return the graph with a number of stages in each kernel's pipeline that is near the best
        at all of these sizes. The number of blocks that fit on a multiprocessor depends on it, and
        so do the sizes at which one more turn begins. The kernels compute the same, in the same
        order."""
        for op in launches(graph.ops):
            depths = [d for d in DEPTHS if d != op.schedule.stages]
            variants = [graph, *(having(graph, {op: _with_stages(op, d)}) for d in depths)]
            graph = variants[self.near_best_first(variants)[0]]
        return graph

    def split(self, graph: KernelGraph, others: Sequence[KernelGraph]) -> int | None:
        """Return the size up to which a class of its own is worthwhile because ``graph`` is far
        from the best at one of the sizes; None if it is near the best everywhere. The best is any
        of the graphs with any number of stages.

        The class is split where the largest ratio is smallest, if any one of them is used below,
        and above one that is as fast as ``graph`` at the largest size."""
        at_most = self._time(graph, self.most) * (1.0 + TOLD_APART)
        tied = [graph, *(other for other in others if self._time(other, self.most) <= at_most)]
        slower = [other for other in others if other not in tied]
        mine = [self._times(g) for one in tied for g in _depths(one)]
        every = [*mine, *(self._times(g) for other in slower for g in _depths(other))]
        best = [min(column) for column in zip(*every, strict=True)]
        if not all(map(math.isfinite, mine[0])) or not all(best):  # or there are no kernels
            return None
        far = max(t / b for t, b in zip(mine[0], best, strict=True))
        splits = {
            at: max(self._worst(every, best, at, above=False), self._worst(mine, best, at))
            for at in range(-(-self.least // ROWS) * ROWS, self.most, ROWS)
        }
        at = min(splits, key=lambda at: splits[at], default=None)
        if far <= FAR or at is None or splits[at] > far - TOLD_APART:
            return None
        return at

    def _worst(
        self, rows: Sequence[Sequence[float]], best: Sequence[float], at: int, above: bool = True
    ) -> float:
        """Return the largest ratio of times to the best, at the sizes above or up to ``at``, of the
        graph of which it is smallest."""
        own = [number for number, n in enumerate(self._sizes()) if (n > at) == above]
        return min(max((row[number] / best[number] for number in own), default=1.0) for row in rows)

    def _sizes(self) -> range:
        step = max(1, (self.most - self.least) // (SAMPLES - 1))
        return range(self.most, self.least - 1, -step)

    def _times(self, graph: KernelGraph) -> list[float]:
        return [self._time(graph, size) for size in self._sizes()]

    def _time(self, graph: KernelGraph, size: int) -> float:
        report = predicted_at(graph, self.inputs, self.most, size, self.target)
        return math.inf if report is None else report.time


def _depths(graph: KernelGraph) -> list[KernelGraph]:
    """Return the unchanged graph, and the graph with each number of stages in all of its
    pipelines."""
    found = [graph]
    for depth in DEPTHS:
        changed: dict[Op, Op] = {op: _with_stages(op, depth) for op in launches(graph.ops)}
        found.append(having(graph, changed))
    return found


def _with_stages(op: Launch, stages: int) -> Launch:
    return replace(op, schedule=replace(op.schedule, stages=stages))
