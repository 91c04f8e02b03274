"""Kernel problems solved by the workers of an executor.

Values are identified by object, and objects change identity on their way through a pickle; so a
worker receives the kernel's region as a graph of its own, and its result is renamed to the values
of the program.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from functools import cache, cached_property

from mirage.cost.cost_report import CostReport
from mirage.cost.overlapping_views import Cut
from mirage.cost.target import Target
from mirage.rare_collections import rare_collections
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.emission.combine_kernels import CombineKernel
from mirage.search.kernel.emission.combine_kernels import Key as CombineKey
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.growth import Scales
from mirage.search.kernel.problems.problem import KernelProblem, Solution, as_written
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchLimits, SearchReport
from mirage.semantics.signature import signature
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Value

Key = tuple[tuple[Value, ...], frozenset[Value]]


@dataclass(frozen=True)
class Region:
    """A kernel problem as a graph, the inputs that L2 still holds, how they grow with the inputs of
    the whole program, the bytes of the tables of which they are rows, where they begin in the
    tensors of which they are blocks, and how many dimensions the indices of looked up rows have."""

    graph: KernelGraph
    hot: tuple[int, ...]
    scales: Scales
    tables: tuple[tuple[int, float], ...] = ()
    cuts: tuple[tuple[int, Cut], ...] = ()
    rows: tuple[tuple[int, int], ...] = ()
    rounded: tuple[int, ...] = ()
    """The numbers of the computed values that kernels round to their types, in the order of the
    ops."""

    @property
    def key(self) -> Key:
        """A key that is equal for regions of the same values."""
        return self.graph.outputs, frozenset(self.graph.inputs)

    @cached_property
    def kind(self) -> object:
        """A key that is equal for regions that differ only in their values, such as those of the
        keys and of the values of an attention: a solution of one solves the other."""
        given = self.hot, self.scales.kind, self.tables, self.cuts, self.rows, self.rounded
        return signature(self.graph), *given

    def problem(self) -> KernelProblem:
        """Return the problem, with axis names of its own."""
        graph = self.graph
        definitions = {r: op for op in graph.ops for r in op.results}
        hot = frozenset(graph.inputs[i] for i in self.hot)
        tables = frozenset((graph.inputs[i], size) for i, size in self.tables)
        # each kernel names its own axes: an axis here may be several in another kernel
        table = AxisTable.of(graph, together=True)
        return KernelProblem(
            graph.outputs,
            graph.inputs,
            definitions,
            table,
            hot=hot,
            scales=self.scales,
            tables=tables,
            cuts=frozenset((graph.inputs[i], cut) for i, cut in self.cuts),
            rows=frozenset((graph.inputs[i], rank) for i, rank in self.rows),
            rounded=frozenset(v for i, v in enumerate(definitions) if i in self.rounded),
        )


RemoteSolution = tuple[KernelGraph, CostReport, str, KernelGraph | None]


@dataclass(frozen=True)
class RemoteResult:
    """The answer of a worker: its region, and predicted times with solutions in the region's values
    (none if the derivation cannot be written), and a number that solutions share if they do the
    same work."""

    graph: KernelGraph
    solutions: tuple[tuple[float, int, RemoteSolution | None], ...]
    report: SearchReport


@cache
def _combined_of(target: Target) -> dict[CombineKey, CombineKernel]:
    """Return this worker's kernels for combining partial results."""
    return {}


@rare_collections()
def solve_region(
    region: Region, target: Target, limits: SearchLimits, deadline: float, count: int
) -> RemoteResult:
    """Solve a region and write up to ``count`` solutions; runs in a worker. ``deadline`` is in
    seconds since the epoch, since clocks of processes differ."""
    report = SearchReport()
    left = time.perf_counter() + max(0.0, deadline - time.time())
    solver = KernelSolver(target, limits, report, left, _combined_of(target))
    graph = region.graph
    solutions: list[tuple[float, int, RemoteSolution | None]] = []
    works: dict[object, int] = {}
    for pick in solver.solve(region.problem(), count)[:count]:
        work = works.setdefault(pick.work, len(works))
        solution = solver.write(pick)
        if solution is None:
            solutions.append((pick.time, work, None))
            continue
        written = KernelGraph(graph.name, graph.inputs, solution.ops, graph.outputs)
        told = written, solution.cost, solution.description, solution.combined
        solutions.append((pick.time, work, told))
    report.weigh()
    return RemoteResult(graph, tuple(solutions), report)


class Remote:
    """Kernel problems that were submitted to an executor. If its workers die, unsolved problems
    count as not submitted.
    """

    def __init__(
        self, executor: Executor, target: Target, limits: SearchLimits, report: SearchReport
    ) -> None:
        self._executor, self._target, self._limits = executor, target, limits
        self._report = report
        self._deadline = time.time() + limits.budget
        self._futures: dict[object, Future[RemoteResult]] = {}
        """The submission that solves a region, by the kind of the region."""

    def end_in(self, seconds: float) -> None:
        """Set the deadline of further submissions, in seconds from now."""
        self._deadline = time.time() + seconds

    def submit(self, region: Region, count: int) -> None:
        """Start solving a region, unless it or an equal one was submitted before."""
        if region.kind not in self._futures:
            with contextlib.suppress(BrokenExecutor):
                self._futures[region.kind] = self._executor.submit(
                    solve_region, region, self._target, self._limits, self._deadline, count
                )

    def result(self, region: Region) -> list[Pick] | None:
        """Return the solutions of a region in the program's values; None if it was not
        submitted."""
        future = self._futures.get(region.kind)
        if future is None:
            return None
        try:
            found = future.result()
        except BrokenExecutor:
            return None
        self._report.merge(found.report)
        theirs = (*found.graph.inputs, *found.graph.outputs)
        ours = (*region.graph.inputs, *region.graph.outputs)
        names = dict(zip(theirs, ours, strict=True))
        picks: list[Pick] = []
        for predicted, work, solution in found.solutions:
            if solution is None:
                picks.append(Pick(predicted, None, refused=True, number=work))
                continue
            graph, cost, words, combined = solution
            written = as_written(rename_graph(graph, names).ops)
            combined = None if combined is None else rename_graph(combined, names)
            ready = Solution(written, cost, words, combined)
            picks.append(Pick(predicted, None, ready, number=work))
        return picks

    def cancel(self) -> None:
        """Drop the submissions that nothing waits for; they are submitted again if they are
        requested."""
        self._futures = {key: f for key, f in self._futures.items() if not f.cancel()}
