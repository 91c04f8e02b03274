"""The search over kernel graphs: which values are written to device memory, and the best kernel
for each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from mirage.cost.model import CostReport
from mirage.cost.target import Target
from mirage.search.joins import without_joins
from mirage.search.kernel import KernelSolver, Pick
from mirage.search.limits import SearchLimits, SearchReport, StopReason
from mirage.search.parallel import Key, Region, Remote
from mirage.search.plans import Plan, PlanSearch, Step, plan_time, step_time
from mirage.search.signature import signature
from mirage.search.views import without_round_trips
from mirage.semantics.axes import AxisTable, UnlabelableError, regroup
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Constant,
    KernelGraph,
    Launch,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Transpose,
    Unary,
    Value,
)

MERGED_PLANS = 4
"""Plans, the best first, in which kernels are merged into ones with several outputs."""


@dataclass(frozen=True)
class Candidate:
    """A µGraph whose compute is in launches, and its predicted cost."""

    graph: KernelGraph
    cost: CostReport
    description: str


@dataclass
class SearchResult:
    """Candidates, cheapest first, and what was covered."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    report: SearchReport = field(default_factory=SearchReport)


def superoptimize(
    graph: KernelGraph,
    target: Target,
    limits: SearchLimits | None = None,
    executor: Executor | None = None,
    *,
    stable: bool = False,
) -> SearchResult:
    """The cheapest µGraphs that compute ``graph``, by the cost model of ``target``.

    Composite ops are expanded first. Exact over the reals: softmax is searched without a row
    maximum (a later rewrite makes it stable), or with it if ``stable`` is set. Ops that axis labels
    cannot follow stay as they are between the launches. With an ``executor`` kernels are solved by
    its workers; the result is the same. Raises :class:`mirage.semantics.check.InvalidGraph` for a
    graph that is not well-formed.
    """
    check_graph(graph)
    limits = limits or SearchLimits()
    plain = without_joins(decompose(graph, stable=stable))
    return _Planner(plain, target, limits, executor).run()


class _Planner:
    def __init__(
        self,
        graph: KernelGraph,
        target: Target,
        limits: SearchLimits,
        executor: Executor | None = None,
    ) -> None:
        self.graph, self.limits, self.target = graph, limits, target
        self.report = SearchReport()
        self.start = time.perf_counter()
        self.solver = KernelSolver(target, limits, self.report, self.start + limits.budget)
        self.definitions: dict[Value, Op] = {r: op for op in graph.ops for r in op.results}
        self.table = AxisTable.of(graph)
        self.memo: dict[Key, list[Pick]] = {}
        self.order = {v: i for i, v in enumerate((*graph.inputs, *self.definitions))}
        self.sources = self._sources()
        # of each plan, what its kernels write, and everything that is in device memory
        self.written: dict[int, tuple[list[tuple[Value, ...] | None], set[Value]]] = {}
        self.kept = self._kept_ops()
        self.remote = Remote(executor, target, limits, self.report) if executor else None

    def run(self) -> SearchResult:
        """All plans within the limits, ranked."""
        result = SearchResult(report=self.report)
        search = PlanSearch(
            self.graph, self.target, self.limits, self.report, self.solver.deadline, self._plan
        )
        if self.remote is not None:
            self.remote.submit(r for cut in search.first() for r in self._regions(cut))
        plans = list(search.plans())
        if self.remote is not None:
            self.remote.cancel()
        if not plans:
            fallback = self._plan(tuple(self._live()), keep_unsolved=True)
            plans = [fallback] if fallback is not None else []
            self.report.note("no plan of fused kernels was found; every op is a kernel of its own")
        best = sorted(plans, key=lambda plan: plan_time(plan, self.target))[:MERGED_PLANS]
        plans.extend(merged for plan in best if len(merged := self._merged(plan)) < len(plan))
        result.candidates = self._best(plans)
        self.report.candidates = len(result.candidates)
        if not any(isinstance(op, Launch) for c in result.candidates for op in c.graph.ops):
            self.report.stop = StopReason.NOTHING
        self.report.seconds["total"] = time.perf_counter() - self.start
        return result

    # ---- plans

    def _sources(self) -> dict[Value, frozenset[Value]]:
        """The inputs of the program that each value depends on."""
        out = {v: frozenset({v}) for v in self.graph.inputs}
        for op in self.graph.ops:
            below = frozenset[Value]().union(*(out[v] for v in op.operands))
            out.update((r, below) for r in op.results)
        return out

    def _live(self) -> list[Value]:
        """Values that some output depends on."""
        live: set[Value] = set(self.graph.outputs)
        for op in reversed(self.graph.ops):
            if any(v in live for v in op.results):
                live.update(op.operands)
        return [v for v in self.definitions if v in live]

    def _kept_ops(self) -> set[Op]:
        """Ops that axis labels cannot follow: they stay, and their operands and results are
        device tensors."""
        kept: set[Op] = set()
        for op in self.graph.ops:
            if isinstance(
                op, Constant | Unary | Binary | Cast | Broadcast | Reduce | Matmul | Transpose
            ):
                continue
            if isinstance(op, Reshape):
                flat = tuple(x for dim in self.table.dims(op.result) for x in dim)
                try:
                    regroup(flat, op.operands[0].shape, self.table.sizes)
                    continue
                except UnlabelableError as error:
                    self.report.note(str(error))
            else:
                self.report.note(f"{type(op).__name__.lower()} stays a kernel of its own")
            kept.add(op)
        return kept

    def _plan(
        self, cut: tuple[Value, ...], bound: float = inf, keep_unsolved: bool = False
    ) -> Plan | None:
        """For each value that the plan writes, the ways to compute it; None where there is none,
        or where its kernels take longer than ``bound``.
        """
        stored = self._stored(cut)
        leaves = set(self.graph.inputs) | stored
        plan: Plan = []
        kernels: list[tuple[Value, ...] | None] = []
        total = 0.0
        for op in self.graph.ops:
            for value in op.results:
                if value not in stored:
                    continue
                if op in self.kept:
                    plan.append([op])
                    kernels.append(None)
                    continue
                picks = self._solve(self._region((value,), leaves - {value}))
                total += picks[0].time if picks else 0.0
                if total > bound:
                    self.report.pruned += 1
                    return None
                if picks:
                    plan.append(list(picks))
                    kernels.append((value,))
                elif keep_unsolved:
                    plan.append([op])
                    kernels.append(None)
                else:
                    return None
        self.written[id(plan)] = kernels, leaves
        return plan

    def _merged(self, plan: Plan) -> Plan:
        """Two kernels become one with several outputs where that is faster."""
        kernels, leaves = self.written[id(plan)]
        plan, kernels = list(plan), list(kernels)
        for i, first in enumerate(kernels):
            for j in range(i + 1, len(kernels)):
                first, second = kernels[i], kernels[j]
                if first is None or second is None or not self._alike(first, second):
                    continue
                between = [v for k in kernels[i + 1 : j] for v in k or ()]
                kept = {
                    v for o in plan[i + 1 : j] if o and isinstance(o[0], Op) for v in o[0].operands
                }
                if kept & set(first) or any(self._reads(v, first, leaves) for v in between):
                    continue  # what the first computes is wanted before the second is
                both = tuple(sorted((*first, *second), key=lambda v: (-v.type.size, self.order[v])))
                picks = self._solve(self._region(both, leaves - set(both)))
                apart = step_time(plan[i][0]) + step_time(plan[j][0]) + self.target.combine
                if picks and picks[0].time < apart:
                    plan[j], kernels[j] = list(picks), both
                    plan[i], kernels[i] = [], None
        return [options for options in plan if options]

    def _alike(self, first: tuple[Value, ...], second: tuple[Value, ...]) -> bool:
        """Whether one block could compute a tile of each: the same shape, or one with size 1."""
        large, small = sorted((first[0], second[0]), key=lambda v: -v.type.size)
        rank = len(small.shape)
        if len(first) + len(second) > self.limits.outputs or rank > len(large.shape):
            return False
        aligned = zip(small.shape, large.shape[len(large.shape) - rank :], strict=True)
        shared = set(self._inputs_of(first)) & set(self._inputs_of(second))
        return all(a in (1, b) for a, b in aligned) and bool(shared)

    def _inputs_of(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(v for value in values for v in self.sources[value])

    def _reads(self, value: Value, sources: tuple[Value, ...], leaves: set[Value]) -> bool:
        region = self._region((value,), leaves - {value})
        return any(v in sources for v in region.graph.inputs)

    def _stored(self, cut: tuple[Value, ...]) -> set[Value]:
        """All values that a plan writes, the outputs and what stays outside of kernels included."""
        stored = set(cut) | set(self.graph.outputs)
        for op in self.kept:
            stored.update(op.results)
            stored.update(v for v in op.operands if v in self.definitions)
        constants = {v for v in stored if isinstance(self.definitions.get(v), Constant)}
        return stored - constants - set(self.graph.inputs)

    def _regions(self, cut: tuple[Value, ...]) -> Iterator[Region]:
        stored = self._stored(cut)
        leaves = set(self.graph.inputs) | stored
        for op in self.graph.ops:
            if op not in self.kept:
                for value in op.results:
                    if value in stored:
                        yield self._region((value,), leaves - {value})

    def _solve(self, region: Region) -> list[Pick]:
        key = region.key
        if key not in self.memo:
            picks = self.remote.result(region) if self.remote is not None else None
            if picks is None:
                picks = self.solver.solve(region.problem())
            self.memo[key] = picks
        return self.memo[key]

    def _region(self, values: tuple[Value, ...], leaves: set[Value]) -> Region:
        """What computes ``values`` from ``leaves``."""
        used: set[Value] = set()
        ops: set[Op] = set()
        stack, seen = list(values), set(values)
        while stack:
            v = stack.pop()
            if v in leaves:
                used.add(v)
                continue
            ops.add(self.definitions[v])
            for x in self.definitions[v].operands:
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
        inputs = tuple(sorted(used, key=lambda v: self.order[v]))
        inside = tuple(op for op in self.graph.ops if op in ops)
        small = self.target.l2_size / 2
        hot = (i for i, v in enumerate(inputs) if v in self.definitions and v.type.bytes < small)
        return Region(KernelGraph(self.graph.name, inputs, inside, values), tuple(hot))

    # ---- candidates

    def _best(self, plans: list[Plan]) -> list[Candidate]:
        """The cheapest distinct combinations over all plans, written down and ranked by the cost
        of what was written."""
        heap: list[tuple[float, int, tuple[int, ...]]] = []
        seen: set[tuple[int, tuple[int, ...]]] = set()

        def push(plan: int, choice: tuple[int, ...]) -> None:
            options = plans[plan]
            if (plan, choice) in seen or any(
                i >= len(o) for i, o in zip(choice, options, strict=True)
            ):
                return
            seen.add((plan, choice))
            time_ = sum(step_time(o[i]) for i, o in zip(choice, options, strict=True))
            heappush(heap, (time_ + self.target.combine * (len(options) - 1), plan, choice))

        for number, options in enumerate(plans):
            push(number, (0,) * len(options))
        found: dict[str, Candidate] = {}
        tries = 0
        while (
            heap and len(found) < 2 * self.limits.candidates and tries < 20 * self.limits.candidates
        ):
            tries += 1
            _, number, choice = heappop(heap)
            candidate = self._candidate([o[i] for i, o in zip(choice, plans[number], strict=True)])
            if candidate is not None:
                found.setdefault(signature(candidate.graph), candidate)
            for position in range(len(choice)):
                push(number, (*choice[:position], choice[position] + 1, *choice[position + 1 :]))
        ranked = sorted(found.items(), key=lambda item: (item[1].cost.time, item[0]))
        return [c for _, c in ranked[: self.limits.candidates]]

    def _candidate(self, steps: list[Step]) -> Candidate | None:
        ops: list[Op] = []
        parts: list[CostReport] = []
        words: list[str] = []
        for step in steps:
            if isinstance(step, Op):
                ops.extend(self._constants(step, ops))
                ops.append(step)
                continue
            solution = self.solver.write(step)
            if solution is None:
                return None
            ops.extend(solution.ops)
            parts.extend(solution.cost.parts or (solution.cost,))
            words.append(solution.description)
        cost = CostReport.sequence(tuple(parts), self.target)
        graph = KernelGraph(self.graph.name, self.graph.inputs, tuple(ops), self.graph.outputs)
        return Candidate(without_round_trips(graph), cost, "; ".join(words))

    def _constants(self, op: Op, ops: list[Op]) -> list[Op]:
        needed = [self.definitions[v] for v in op.operands if v in self.definitions]
        return [c for c in dict.fromkeys(needed) if isinstance(c, Constant) and c not in ops]
