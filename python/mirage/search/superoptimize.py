"""The search over kernel graphs: the values that are written to device memory, and the best kernel
for each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from mirage.cost.target import Target
from mirage.rare_collections import rare_collections
from mirage.search.best_candidates import Candidate, Candidates
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.equal_regions import EqualRegions
from mirage.search.kernel.problems.problem import Solution
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Key, Region, Remote
from mirage.search.kernel.written_first import written_first
from mirage.search.limits import SearchLimits, SearchReport, StopReason
from mirage.search.program.cancelled_shifts import without_cancelled_shifts
from mirage.search.program.copied_parts import with_copied_parts
from mirage.search.program.cuts import Cuts
from mirage.search.program.joins import without_joins
from mirage.search.program.late_joins import with_late_joins
from mirage.search.program.partial_sums import with_partial_sums
from mirage.search.program.parts import Program
from mirage.search.program.plans import PLANS, PlanSearch
from mirage.search.program.product_orders import with_least_products
from mirage.search.program.shared_views import each_view_once
from mirage.search.program.short_rows import with_parts_of_short_rows
from mirage.search.program.short_sums import with_parts_of_short_sums
from mirage.search.program.slices import with_early_slices
from mirage.search.program.sums_and_readers import SumsAndReaders
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph, Op, Softmax, Structure, all_ops, launches

Watch = Callable[[float, int], None]
"""A function that is called with the µs of the best known plan, infinite if there is none, and the
number of solved kernels."""

SMALL = 8
"""The least number of values that may be stored for which workers save more time than they take to
start."""


@dataclass
class SearchResult:
    """The candidates, cheapest first, and the coverage. ``program`` is the program that was
    searched (:func:`searched`, with ``stable``)."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    report: SearchReport = field(default_factory=SearchReport)
    program: KernelGraph | None = None
    stable: bool = False


def superoptimize(
    graph: KernelGraph,
    target: Target,
    limits: SearchLimits | None = None,
    executor: Executor | None = None,
    *,
    stable: bool = False,
    watch: Watch | None = None,
) -> SearchResult:
    """Return the cheapest µGraphs that compute ``graph``, by the cost model of ``target``.

    Composite ops are expanded first. Candidates are exact over the reals: softmax is searched
    without a row maximum (a later rewrite makes it stable), or with it if ``stable`` is set. Ops
    that axis labels cannot follow stay unchanged between the launches. With an ``executor``, its
    workers solve kernels; the result is the same. ``watch`` is called with the progress. Raises
    :class:`mirage.semantics.check.InvalidGraph` for a graph that is not well-formed.
    """
    return Planner(graph, target, limits, executor, watch, stable=stable).run()


def structure_of(solution: Solution | None) -> tuple[object, ...] | None:
    """Return the structure of a kernel, which is equal for kernels that differ only in sizes."""
    if solution is None:
        return None
    return tuple(
        (tuple(a.name for a in op.grid), *map(_kind, all_ops(op.body.ops)))
        for op in launches(solution.ops)
    )


def _kind(op: Op) -> tuple[object, ...]:
    return type(op).__name__, getattr(op, "fn", None), getattr(op, "dim", None)


def searched(graph: KernelGraph, *, stable: bool = False) -> tuple[KernelGraph, KernelGraph]:
    """Return ``graph`` in primitive ops (softmax with its row maximum if ``stable``), and the
    program that the search examines: the same without shifts of exponentials that cancel (unless
    ``stable``), with its slices, joins and products where they cost least, and with sums of long
    rows in two steps."""
    source = decompose(graph, stable=stable)
    graph = source if stable else without_cancelled_shifts(source)
    graph = with_parts_of_short_sums(with_parts_of_short_rows(each_view_once(graph)))
    graph = with_least_products(without_joins(with_early_slices(graph)))
    graph = with_partial_sums(with_late_joins(graph))
    return source, with_copied_parts(graph)


def has_maxima(graph: KernelGraph) -> bool:
    """Return whether the program that the search examines lacks maxima of ``graph``, which
    ``stable`` keeps."""
    if any(isinstance(op, Softmax) for op in graph.ops):
        return True
    source = decompose(graph)
    return without_cancelled_shifts(source) is not source


class Planner:
    """A search that can be continued: if kernels turn out to be unusable, they are refused, and the
    search finds the best µGraphs without them."""

    def __init__(
        self,
        graph: KernelGraph,
        target: Target,
        limits: SearchLimits | None = None,
        executor: Executor | None = None,
        watch: Watch | None = None,
        *,
        stable: bool = False,
        rows: Mapping[int, int] = {},
    ) -> None:
        """``rows`` are inputs that kernels will look up, with the number of dimensions of their
        indices."""
        check_graph(graph)
        limits = limits or SearchLimits()
        self.stable = stable
        self.source, graph = searched(graph, stable=stable)
        self._watch = watch
        self.graph, self.limits, self.target = graph, limits, target
        self.report = SearchReport()
        self.start = time.perf_counter()
        self.solver = KernelSolver(target, limits, self.report, self.start + limits.budget)
        self.program = Program(graph, target, self.report, rows)
        self._sums = SumsAndReaders(self.solver, graph.inputs, graph.outputs)
        self._candidates = Candidates(graph, target, self.solver, self.program, self._sums)
        self.memo: dict[Key, list[Pick]] = {}
        self._equal = EqualRegions(self.solver.write)
        self._blamed: set[Key] = set()
        self._wrong: dict[Key, set[object]] = {}  # structures that were refused
        self._few: dict[Key, Region] = {}  # only solved for a few ways
        self._cuts: Cuts | None = None
        self.remote = Remote(executor, target, limits, self.report) if executor else None

    def again(
        self,
        refused: Iterable[Pick],
        seconds: float,
        blamed: Iterable[Pick] = (),
        *,
        sizes: bool = False,
    ) -> SearchResult:
        """Return the best plans without some kernels and others of their structure (or, if their
        ``sizes`` are the cause, without those sizes), found within ``seconds``.

        Known kernels are not searched again. ``blamed`` are the kernels that are known to be wrong
        themselves: if that happens twice for the same region, no kernels are used for it any
        more."""
        refused = list(refused)
        self._sums.refuse(refused)
        certain = {id(pick) for pick in blamed}
        again: set[Key] = set()
        touched: set[Key] = set()
        for pick in refused:
            wrong = structure_of(self.solver.write(pick))
            for key, picks in self.memo.items():
                if any(p is pick for p in picks):
                    if sizes and (others := self._other_sizes(pick, picks)):
                        self.memo[key] = others
                        break
                    self._wrong.setdefault(key, set()).add(wrong)
                    touched.add(key)
                    if id(pick) in certain:
                        again.add(key)
                    break
        self.start = time.perf_counter()
        self.solver.deadline = self.start + seconds
        if self.remote is not None:
            self.remote.end_in(seconds)
        for key in touched:
            self.memo[key] = self._right(key, self.memo[key])
            if not self.memo[key] and key not in again & self._blamed and key in self._few:
                # ways that were dropped in favour of better ones may be the only ones left
                every = self.solver.solve(self._few.pop(key).problem())
                self.memo[key] = self._right(key, every[: 2 * self.limits.choices])
        for key in again & self._blamed:
            self.memo[key] = []
        self._blamed |= again
        self.report.go_on()
        return self.run()

    def _other_sizes(self, refused: Pick, picks: Sequence[Pick]) -> list[Pick]:
        """Return the kernels with one of them replaced by the same kernel at its next best
        sizes."""
        left = [p for p in picks if p is not refused]
        other = refused.next()
        while other is not None and self.solver.write(other) is None:
            other = other.next()
        left += [] if other is None else [other]
        return written_first(sorted(left, key=lambda p: p.time), self.solver.write)

    def go_on(self, limits: SearchLimits, executor: Executor | None = None) -> SearchResult:
        """Continue the search within other limits and with other workers, keeping the results of
        regions, but not applying them to equal regions: within these limits more may be found for
        those."""
        self.start = time.perf_counter()
        self.limits = self.solver.limits = limits
        self.solver.deadline = self.start + limits.budget
        self._equal = EqualRegions(self.solver.write)
        self.remote = Remote(executor, self.target, limits, self.report) if executor else None
        if self._cuts is not None and self._cuts.hurried:
            self._cuts = None
        self.report.go_on(PLANS)
        return self.run()

    def _right(self, key: Key, picks: list[Pick]) -> list[Pick]:
        """Return the kernels that can be written and whose structure was not refused."""
        wrong = self._wrong.get(key, set())
        found = ((p, structure_of(self.solver.write(p))) for p in picks)
        return [p for p, s in found if s is not None and s not in wrong]

    def run(self) -> SearchResult:
        """Return the best plans within the limits, ranked."""
        with rare_collections():
            return self._run()

    def _run(self) -> SearchResult:
        result = SearchResult(report=self.report, program=self.graph, stable=self.stable)
        search = PlanSearch(
            self.program,
            self.limits,
            self.report,
            self.solver.deadline,
            self._solve,
            self._submit,
            self._tell,
            self._cuts,
        )
        self._cuts = search.cuts
        plans = search.plans()
        if self.remote is not None:
            self.remote.cancel()
        if not plans:
            plans = [search.op_by_op()]
            self.report.note("no plan of fused kernels was found; every op is a separate kernel")
        result.candidates = self._candidates.best(plans)
        self.report.candidates = len(result.candidates)
        if not any(isinstance(op, Structure) for c in result.candidates for op in c.graph.ops):
            self.report.stop = StopReason.NOTHING
        self.report.seconds["total"] = time.perf_counter() - self.start
        self.report.weigh()
        return result

    def _tell(self, best: float) -> None:
        if self._watch is not None:
            self._watch(best, self.report.kernels)

    def _submit(self, regions: list[Region]) -> None:
        """Submit regions to workers, to be solved in parallel. A single region is solved here, as
        are the whole program (a worker would write all of its ways) and small programs."""
        new = [r for r in regions if r.key not in self.memo and not self._is_whole(r)]
        small = len(self.program.nodes) < SMALL
        if self.remote is not None and len(new) > 1 and not small:
            for region in new:
                self.remote.submit(region, self.limits.choices)

    def _is_whole(self, region: Region) -> bool:
        graph = region.graph
        return {*graph.outputs} == {*self.graph.outputs} and (
            {*graph.inputs} <= {*self.graph.inputs}
        )

    def _solve(self, region: Region) -> list[Pick]:
        key = region.key
        if key not in self.memo:
            whole = self._is_whole(region)
            picks = None if whole else self._equal.picks(region)
            if picks is None:
                picks = self._solved(region, 2 * self.limits.candidates if whole else None)
                if not whole:
                    self._equal.add(region, picks)
            self.memo[key] = picks
            self._few[key] = region
        return self.memo[key]

    def _solved(self, region: Region, count: int | None) -> list[Pick]:
        picks = self.remote.result(region) if self.remote is not None else None
        if picks is None:
            count = self.limits.choices if count is None else count
            picks = self.solver.solve(region.problem(), count)[:count]
        return written_first(picks, self.solver.write)
