"""The search over kernel graphs: which values are written to device memory, and the best kernel for each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import combinations

from mirage.cost.model import CostReport
from mirage.cost.target import Target
from mirage.search.kernel import KernelProblem, KernelSolver, Pick
from mirage.search.limits import SearchLimits, SearchReport, StopReason
from mirage.search.signature import signature
from mirage.semantics.axes import AxisTable, UnlabelableError, regroup
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

Step = Pick | Op
"""A kernel to be written, or an op that stays as it is."""


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
        self.graph, self.limits, self.target = graph, limits, target
        self.report = SearchReport()
        self.start = time.perf_counter()
        self.solver = KernelSolver(target, limits, self.report, self.start + limits.budget)
        self.definitions: dict[Value, Op] = {r: op for op in graph.ops for r in op.results}
        self.table = AxisTable.of(graph)
        self.memo: dict[tuple[Value, frozenset[Value]], list[Pick]] = {}
        self.order = {v: i for i, v in enumerate((*graph.inputs, *self.definitions))}
        self.kept = self._kept_ops()

    def run(self) -> SearchResult:
        """All plans within the limits, ranked."""
        result = SearchResult(report=self.report)
        plans = list(self._solve_plans())
        if not plans:
            fallback = self._plan(tuple(self._live()), keep_unsolved=True)
            plans = [fallback] if fallback is not None else []
            self.report.note("no plan of fused kernels was found; every op is a kernel of its own")
        result.candidates = self._best(plans)
        self.report.candidates = len(result.candidates)
        if not any(isinstance(op, Launch) for c in result.candidates for op in c.graph.ops):
            self.report.stop = StopReason.NOTHING
        self.report.seconds["total"] = time.perf_counter() - self.start
        return result

    # ---- plans: which values are written to device memory

    def _solve_plans(self) -> Iterator[list[list[Step]]]:
        best = float("inf")
        for cut in self._cuts():
            if time.perf_counter() - self.start > self.limits.budget and best < float("inf"):
                self.report.stop = StopReason.BUDGET
                return
            if self.report.plans >= self.limits.plans:
                self.report.stop = StopReason.LIMIT
                return
            self.report.plans += 1
            if self._floor(cut) > 1.25 * best:
                self.report.pruned += 1
                continue
            plan = self._plan(cut)
            if plan is not None:
                best = min(best, sum(_time(options[0]) for options in plan))
                yield plan

    def _live(self) -> list[Value]:
        """Values that some output depends on."""
        live: set[Value] = set(self.graph.outputs)
        for op in reversed(self.graph.ops):
            if any(v in live for v in op.results):
                live.update(op.operands)
        return [v for v in self.definitions if v in live]

    def _kept_ops(self) -> set[Op]:
        """Ops that axis labels cannot follow: they stay, and their operands and results are device tensors."""
        kept: set[Op] = set()
        for op in self.graph.ops:
            if isinstance(op, Constant | Unary | Binary | Cast | Broadcast | Reduce | Matmul | Transpose):
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

    def _cuts(self) -> list[tuple[Value, ...]]:
        """Sets of intermediates to materialise, those with the lowest bound on time first."""
        values = self._intermediates()
        cuts: list[tuple[Value, ...]] = []
        for count in range(min(self.limits.cuts, len(values)) + 1):
            cuts.extend(combinations(values, count))
        return sorted(cuts, key=lambda cut: (len(cut) > 0, self._floor(cut)))

    def _intermediates(self) -> list[Value]:
        """Values worth writing: not views, not what the next elementwise op changes, not elementwise in the inputs."""
        users: dict[Value, list[Op]] = {}
        for op in self.graph.ops:
            for v in op.operands:
                users.setdefault(v, []).append(op)
        out: list[Value] = []
        shallow: set[Value] = set(self.graph.inputs)
        for op in self.graph.ops:
            (value,) = op.results
            if isinstance(op, Constant) or (
                not isinstance(op, Matmul | Reduce) and all(v in shallow for v in op.operands)
            ):
                shallow.add(value)
                continue
            if value in self.graph.outputs or isinstance(op, Reshape | Transpose | Broadcast):
                continue
            uses = users.get(value, [])
            if len(uses) == 1 and self._absorbs(uses[0], value):
                continue
            out.append(value)
        return out

    def _absorbs(self, use: Op, value: Value) -> bool:
        if isinstance(use, Unary | Cast):
            return True
        if not isinstance(use, Binary):
            return False
        others = [v for v in use.operands if v is not value]
        return all(isinstance(self.definitions.get(v), Constant) for v in others)

    def _floor(self, cut: tuple[Value, ...]) -> float:
        """A bound from below: bytes that the plan cannot avoid, and its launches."""
        size = sum(v.type.bytes for v in (*self.graph.inputs, *self.graph.outputs))
        size += sum(v.type.bytes for v in cut)
        fixed = self.target.launch + self.target.latency
        return size / self.target.dram_bytes + fixed * (len(cut) + 1) + self.target.combine * len(cut)

    def _plan(self, cut: tuple[Value, ...], keep_unsolved: bool = False) -> list[list[Step]] | None:
        """For each value that the plan writes, the ways to compute it; None where there is none."""
        stored = set(cut) | set(self.graph.outputs)
        for op in self.kept:
            stored.update(op.results)
            stored.update(v for v in op.operands if v in self.definitions)
        stored = {v for v in stored if not isinstance(self.definitions.get(v), Constant)} - set(self.graph.inputs)
        leaves = set(self.graph.inputs) | stored
        plan: list[list[Step]] = []
        for op in self.graph.ops:
            for value in op.results:
                if value not in stored:
                    continue
                if op in self.kept:
                    plan.append([op])
                    continue
                picks = self._solve(value, leaves - {value})
                if picks:
                    plan.append(list(picks))
                elif keep_unsolved:
                    plan.append([op])
                else:
                    return None
        return plan

    def _solve(self, value: Value, leaves: set[Value]) -> list[Pick]:
        used = self._used(value, leaves)
        key = (value, frozenset(used))
        if key not in self.memo:
            ordered = tuple(sorted(used, key=lambda v: self.order[v]))
            hot = frozenset(v for v in used if v in self.definitions and v.type.bytes < self.target.l2_size / 2)
            problem = KernelProblem(value, ordered, self.definitions, self.table, hot=hot)
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

    # ---- candidates

    def _best(self, plans: list[list[list[Step]]]) -> list[Candidate]:
        """The cheapest distinct combinations over all plans, written down and ranked by the cost of what was written."""
        heap: list[tuple[float, int, tuple[int, ...]]] = []
        seen: set[tuple[int, tuple[int, ...]]] = set()

        def push(plan: int, choice: tuple[int, ...]) -> None:
            options = plans[plan]
            if (plan, choice) in seen or any(i >= len(o) for i, o in zip(choice, options, strict=True)):
                return
            seen.add((plan, choice))
            time_ = sum(_time(o[i]) for i, o in zip(choice, options, strict=True))
            heappush(heap, (time_ + self.target.combine * (len(options) - 1), plan, choice))

        for number, options in enumerate(plans):
            push(number, (0,) * len(options))
        found: dict[str, Candidate] = {}
        tries = 0
        while heap and len(found) < 2 * self.limits.candidates and tries < 20 * self.limits.candidates:
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
        return Candidate(graph, cost, "; ".join(words))

    def _constants(self, op: Op, ops: list[Op]) -> list[Op]:
        needed = [self.definitions[v] for v in op.operands if v in self.definitions]
        return [c for c in dict.fromkeys(needed) if isinstance(c, Constant) and c not in ops]


def _time(step: Step) -> float:
    return step.time if isinstance(step, Pick) else 0.0
