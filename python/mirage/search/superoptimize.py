"""The search over kernel graphs: which values are written to device memory, and the best kernel
for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from heapq import heappop, heappush

from mirage.cost.copy_kernels import copies_in, is_unfused, unfused_report
from mirage.cost.cost_report import CostReport
from mirage.cost.target import Target
from mirage.search.kernel.problem import Solution
from mirage.search.kernel.solver import KernelSolver, Pick
from mirage.search.kernel.workers import Key, Region, Remote
from mirage.search.kernel.written_first import written_first
from mirage.search.limits import SearchLimits, SearchReport, StopReason
from mirage.search.program.copied_parts import with_copied_parts
from mirage.search.program.cuts import Cuts
from mirage.search.program.joins import without_joins
from mirage.search.program.late_joins import with_late_joins
from mirage.search.program.parts import Program
from mirage.search.program.plans import PLANS, Kept, Plan, PlanSearch, Step, step_time
from mirage.search.program.product_orders import with_least_products
from mirage.search.program.shared_views import each_view_once, without_round_trips
from mirage.search.program.short_rows import with_parts_of_short_rows
from mirage.search.program.slices import with_early_slices
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    KernelGraph,
    Op,
    Structure,
    Value,
    all_ops,
    launches,
)

Watch = Callable[[float, int], None]
"""Called with the µs of the best plan known, infinite for none, and the number of kernels
solved."""

SMALL = 8
"""With fewer values that may be stored, workers would take longer to start than they save."""


@dataclass(frozen=True)
class Candidate:
    """A µGraph whose compute is in launches, and its predicted cost.

    ``stored`` says which value of the program that was searched each tensor between its kernels
    holds, in row-major order whatever the shape; ``picks`` which kernel computes such a value. Of a
    candidate that an earlier run has found only its cost and description may be known: its graph
    has no ops then."""

    graph: KernelGraph
    cost: CostReport
    description: str
    stored: tuple[tuple[Value, Value], ...] = ()
    picks: Mapping[Value, Pick] = field(default_factory=dict[Value, Pick])

    def pick_of(self, op: Op) -> Pick | None:
        """The kernel that an op of the graph was written for."""
        for pick in self.picks.values():
            written = () if pick.written is None else pick.written.ops
            if any(r in op.results for own in written for r in own.results):
                return pick
        return None


@dataclass
class SearchResult:
    """Candidates, cheapest first, and what was covered. ``program`` is what was searched
    (:func:`searched`, with ``stable``)."""

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
    """The cheapest µGraphs that compute ``graph``, by the cost model of ``target``.

    Composite ops are expanded first. Exact over the reals: softmax is searched without a row
    maximum (a later rewrite makes it stable), or with it if ``stable`` is set. Ops that axis labels
    cannot follow stay as they are between the launches. With an ``executor`` kernels are solved by
    its workers; the result is the same. ``watch`` is called with how far the search is. Raises
    :class:`mirage.semantics.check.InvalidGraph` for a graph that is not well-formed.
    """
    return Planner(graph, target, limits, executor, watch, stable=stable).run()


def structure_of(solution: Solution | None) -> tuple[object, ...] | None:
    """What a kernel does whatever its sizes: kernels that differ in sizes only have the same."""
    if solution is None:
        return None
    return tuple(
        (tuple(a.name for a in op.grid), *map(_kind, all_ops(op.body.ops)))
        for op in launches(solution.ops)
    )


def _kind(op: Op) -> tuple[object, ...]:
    return type(op).__name__, getattr(op, "fn", None), getattr(op, "dim", None)


def searched(graph: KernelGraph, *, stable: bool = False) -> tuple[KernelGraph, KernelGraph]:
    """``graph`` in primitive ops (softmax with its row maximum if ``stable``), and the program that
    a search for it looks at: the same with its slices, joins and products where they cost least."""
    source = decompose(graph, stable=stable)
    graph = with_parts_of_short_rows(each_view_once(source))
    graph = with_least_products(without_joins(with_early_slices(graph)))
    graph = with_late_joins(graph)
    return source, with_copied_parts(graph)


class Planner:
    """A search that can be continued: kernels that turn out to be of no use are refused, and it
    finds the best µGraphs without them."""

    def __init__(
        self,
        graph: KernelGraph,
        target: Target,
        limits: SearchLimits | None = None,
        executor: Executor | None = None,
        watch: Watch | None = None,
        *,
        stable: bool = False,
    ) -> None:
        check_graph(graph)
        limits = limits or SearchLimits()
        self.stable = stable
        self.source, graph = searched(graph, stable=stable)
        self._watch = watch
        self.graph, self.limits, self.target = graph, limits, target
        self.report = SearchReport()
        self.start = time.perf_counter()
        self.solver = KernelSolver(target, limits, self.report, self.start + limits.budget)
        self.program = Program(graph, target, self.report)
        self.memo: dict[Key, list[Pick]] = {}
        self._blamed: set[Key] = set()
        self._wrong: dict[Key, set[object]] = {}  # structures that were refused
        self._few: dict[Key, Region] = {}  # solved for a few ways only
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
        """The best plans without some kernels and others of their structure (or, where their
        ``sizes`` are to blame, those of other sizes remain), found within ``seconds``. Kernels that
        are known are not looked for again. ``blamed`` are those of them that are known to be wrong
        themselves: where that happens twice for what is the same to compute, there are no kernels
        for it any more."""
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
                # what was left out beside better ways may be all that there is
                every = self.solver.solve(self._few.pop(key).problem())
                self.memo[key] = self._right(key, every[: 2 * self.limits.choices])
        for key in again & self._blamed:
            self.memo[key] = []
        self._blamed |= again
        self.report.go_on()
        return self.run()

    def _other_sizes(self, refused: Pick, picks: Sequence[Pick]) -> list[Pick]:
        """The kernels without one of them, which gives way to the same at its next best sizes."""
        left = [p for p in picks if p is not refused]
        other = refused.next()
        while other is not None and self.solver.write(other) is None:
            other = other.next()
        left += [] if other is None else [other]
        return written_first(sorted(left, key=lambda p: p.time), self.solver.write)

    def go_on(self, limits: SearchLimits, executor: Executor | None = None) -> SearchResult:
        """The same search within other limits and with other workers, with all that is known
        already."""
        self.start = time.perf_counter()
        self.limits = self.solver.limits = limits
        self.solver.deadline = self.start + limits.budget
        self.remote = Remote(executor, self.target, limits, self.report) if executor else None
        if self._cuts is not None and self._cuts.hurried:
            self._cuts = None
        self.report.go_on(PLANS)
        return self.run()

    def _right(self, key: Key, picks: list[Pick]) -> list[Pick]:
        """Kernels that can be written, and have no structure that was refused."""
        wrong = self._wrong.get(key, set())
        found = ((p, structure_of(self.solver.write(p))) for p in picks)
        return [p for p, s in found if s is not None and s not in wrong]

    def run(self) -> SearchResult:
        """The best plans within the limits, ranked."""
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
            self.report.note("no plan of fused kernels was found; every op is a kernel of its own")
        result.candidates = self._best(plans)
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
        """Has workers solve regions beside each other. One alone is solved here, as are the whole
        program (a worker would write down all of its ways) and small programs."""
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
            picks = self.remote.result(region) if self.remote is not None else None
            if picks is None:
                whole = self._is_whole(region)
                count = 2 * self.limits.candidates if whole else self.limits.choices
                picks = self.solver.solve(region.problem(), count)[:count]
            self.memo[key] = written_first(picks, self.solver.write)
            self._few[key] = region
        return self.memo[key]

    # ---- candidates

    def _best(self, plans: list[Plan]) -> list[Candidate]:
        """The cheapest distinct combinations over all plans, written down and ranked by the cost
        of what was written."""
        wanted = self.limits.candidates
        found: dict[str, Candidate] = {}
        for tries, (regions, steps) in enumerate(self._combinations(plans)):
            late = tries >= wanted and time.perf_counter() > self.solver.deadline
            if len(found) >= 2 * wanted or tries >= 20 * wanted or (late and found):
                break
            candidate = self._candidate(regions, steps)
            if candidate is not None:
                found.setdefault(signature(candidate.graph), candidate)
        ranked = sorted(found.items(), key=lambda item: (item[1].cost.time, item[0]))
        return [c for _, c in ranked[: self.limits.candidates]]

    def _combinations(
        self, plans: list[Plan]
    ) -> Iterator[tuple[tuple[Region, ...], tuple[Step, ...]]]:
        """The ways to choose a step for each part of a plan, over all plans, the cheapest first;
        those of the same steps once."""
        heap: list[tuple[float, int, tuple[int, ...]]] = []
        seen: set[tuple[int, tuple[int, ...]]] = set()
        given: set[frozenset[int]] = set()

        def push(plan: int, choice: tuple[int, ...], time_: float) -> None:
            if (plan, choice) not in seen:
                seen.add((plan, choice))
                heappush(heap, (time_, plan, choice))

        for number, plan in enumerate(plans):
            push(number, (0,) * len(plan.options), plan.time(self.target))
        while heap:
            time_, number, choice = heappop(heap)
            options = plans[number].options
            steps = tuple(o[i] for i, o in zip(choice, options, strict=True))
            same = frozenset(map(id, steps))
            if same not in given:
                given.add(same)
                yield plans[number].regions, steps
            for position, (i, other) in enumerate(zip(choice, options, strict=True)):
                if i + 1 < len(other):
                    more = step_time(other[i + 1]) - step_time(other[i])
                    after = (*choice[:position], i + 1, *choice[position + 1 :])
                    push(number, after, time_ + more)

    def _candidate(self, regions: Sequence[Region], steps: Sequence[Step]) -> Candidate | None:
        ops: list[Op] = []
        parts: list[CostReport] = []
        words: list[str] = []
        picks: dict[Value, Pick] = {}
        kept: set[Op] = set()
        copies = copies_in(self.graph)
        for region, step in zip(regions, steps, strict=True):
            if isinstance(step, Kept):
                for op in step.ops:
                    if op in kept:  # a cast, say, that two parts without a kernel compute
                        continue
                    kept.add(op)
                    ops.extend(self._constants(op, ops))
                    ops.append(op)
                    if is_unfused(op, copies):
                        parts.append(unfused_report(op, self.target))
                continue
            solution = self.solver.write(step)
            if solution is None:
                return None
            ops.extend(solution.ops)
            parts.extend(solution.cost.parts or (solution.cost,))
            words.append(solution.description)
            picks.update(dict.fromkeys(region.graph.outputs, step))
        cost = CostReport.sequence(tuple(parts), self.target)
        written = KernelGraph(self.graph.name, self.graph.inputs, tuple(ops), self.graph.outputs)
        graph, roots = without_round_trips(written)
        held = {v for op in graph.ops for v in op.results}
        stored = tuple((v, root) for v in picks if (root := roots.get(v, v)) in held)
        return Candidate(graph, cost, "; ".join(words), stored, picks)

    def _constants(self, op: Op, ops: list[Op]) -> list[Op]:
        """What the op reads that is one constant everywhere, and is not there yet."""
        needed = (made for v in op.operands for made in self.program.filling(v))
        return [made for made in dict.fromkeys(needed) if made not in ops]
