"""The search over kernel graphs: which values are written to device memory, and the best kernel for each."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import combinations

from mirage.cost.model import CostReport
from mirage.cost.target import Target
from mirage.search.kernel import KernelProblem, KernelSolver, Solution
from mirage.search.limits import SearchLimits, SearchReport, StopReason
from mirage.semantics.axes import AxisTable
from mirage.semantics.ugraph import Constant, KernelGraph, Op, Reshape, Transpose, Value


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
    graph: KernelGraph, target: Target, limits: SearchLimits | None = None, executor: Executor | None = None
) -> SearchResult:
    """The cheapest µGraphs that compute ``graph``, by the cost model of ``target``.

    Composite ops are expanded first. Exact over the reals: softmax is searched without a row maximum (a later rewrite makes it
    stable). Ops that axis labels cannot follow stay as they are between the launches.
    """
    from mirage.semantics.decompose import decompose

    limits = limits or SearchLimits()
    return _Planner(decompose(graph), target, limits).run()


class _Planner:
    def __init__(self, graph: KernelGraph, target: Target, limits: SearchLimits) -> None:
        self.graph, self.limits = graph, limits
        self.report = SearchReport()
        self.start = time.perf_counter()
        self.solver = KernelSolver(target, limits, self.report, self.start + limits.budget)
        self.target = target
        self.definitions: dict[Value, Op] = {r: op for op in graph.ops for r in op.results}
        self.table = AxisTable.of(graph)
        self.memo: dict[tuple[Value, frozenset[Value]], list[Solution]] = {}

    def run(self) -> SearchResult:
        """All plans within the limits, ranked."""
        result = SearchResult(report=self.report)
        found: dict[tuple[int, ...], Candidate] = {}
        best = float("inf")
        for cut in self._cuts():
            if time.perf_counter() - self.start > self.limits.budget and found:
                self.report.stop = StopReason.BUDGET
                break
            if self.report.plans >= self.limits.plans:
                self.report.stop = StopReason.LIMIT
                break
            self.report.plans += 1
            if self._floor(cut) > 1.5 * best:
                self.report.pruned += 1
                continue
            for candidate in self._plan(cut):
                found[tuple(map(id, candidate.graph.ops))] = candidate
                best = min(best, candidate.cost.time)
        ranked = sorted(found.values(), key=lambda c: c.cost.time)
        result.candidates = ranked[: self.limits.candidates]
        self.report.candidates = len(found)
        if not ranked:
            self.report.stop = StopReason.NOTHING
        self.report.seconds["total"] = time.perf_counter() - self.start
        return result

    def _intermediates(self) -> list[Value]:
        outputs = set(self.graph.outputs)
        out: list[Value] = []
        for op in self.graph.ops:
            if isinstance(op, Constant | Reshape | Transpose):
                continue
            out.extend(v for v in op.results if v not in outputs)
        return out

    def _cuts(self) -> list[tuple[Value, ...]]:
        """Sets of intermediates to materialise, the smallest first."""
        values = self._intermediates()
        cuts: list[tuple[Value, ...]] = []
        for count in range(min(self.limits.cuts, len(values)) + 1):
            cuts.extend(combinations(values, count))
        return cuts

    def _floor(self, cut: tuple[Value, ...]) -> float:
        """A bound from below: bytes that the plan cannot avoid, and its launches."""
        bytes_ = sum(v.type.bytes for v in (*self.graph.inputs, *self.graph.outputs))
        bytes_ += sum(v.type.bytes for v in cut)
        return bytes_ / self.target.dram_bytes + self.target.launch * (len(cut) + 1)

    def _plan(self, cut: tuple[Value, ...]) -> list[Candidate]:
        wanted = [v for op in self.graph.ops for v in op.results if v in set(cut) | set(self.graph.outputs)]
        leaves = set(self.graph.inputs) | set(cut)
        choices: list[list[Solution]] = []
        for value in wanted:
            solutions = self._solve(value, leaves - {value})
            if not solutions:
                return []
            choices.append(solutions)
        picks = [tuple(c[0] for c in choices)]
        for i, options in enumerate(choices):
            picks.extend((*picks[0][:i], other, *picks[0][i + 1 :]) for other in options[1:])
        out: list[Candidate] = []
        for pick in picks:
            ops = tuple(op for s in pick for op in s.ops)
            cost = CostReport.sequence(tuple(p for s in pick for p in (s.cost.parts or (s.cost,))), self.target)
            new = KernelGraph(self.graph.name, self.graph.inputs, ops, self.graph.outputs)
            out.append(Candidate(new, cost, "; ".join(s.description for s in pick)))
        return out

    def _solve(self, value: Value, leaves: set[Value]) -> list[Solution]:
        used = self._used(value, leaves)
        key = (value, frozenset(used))
        if key not in self.memo:
            ordered = tuple(v for v in (*self.graph.inputs, *self.definitions) if v in used)
            problem = KernelProblem(value, ordered, self.definitions, self.table)
            self.memo[key] = self.solver.solve(problem)
        return self.memo[key]

    def _used(self, value: Value, leaves: set[Value]) -> set[Value]:
        used: set[Value] = set()
        stack, seen = [value], {value}
        while stack:
            v = stack.pop()
            if v in leaves:
                used.add(v)
                continue
            for x in self.definitions[v].operands:
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
        return used
