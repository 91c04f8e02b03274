"""Which intermediate values a program writes to device memory.

A *plan* is a set of stored values; every stored value is computed by a kernel of its own from the
program's inputs and other stored values (intermediates that are not stored are recomputed where
they are needed). Small programs are searched exhaustively up to a number of stored values; larger
ones by local search from the plan that stores everything, removing (and putting back) one value
at a time as long as the predicted time falls. Kernels are solved once for each pair of a value
and what it is computed from, so neighbouring plans share almost all their work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations

from mirage.cost.target import Target
from mirage.search.kernel import Pick
from mirage.search.limits import SearchLimits, SearchReport, StopReason
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Constant,
    KernelGraph,
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
Plan = list[list[Step]]
"""For each stored value the ways to compute it, cheapest first."""

View = Reshape | Transpose | Broadcast
EXHAUSTIVE = 5
"""Programs with more intermediates are searched locally."""
HOPELESS = 1.5
"""A plan is given up once its kernels take this many times as long as the best plan."""


def plan_time(plan: Plan, target: Target) -> float:
    """Predicted µs of a plan's cheapest kernels."""
    total = sum(step_time(options[0]) for options in plan)
    return total + target.combine * max(0, len(plan) - 1)


def step_time(step: Step) -> float:
    """Predicted µs of a kernel; ops that stay as they are count as nothing, as every plan has
    them."""
    return step.time if isinstance(step, Pick) else 0.0


class PlanSearch:
    """Enumerates plans of one program; ``solve`` makes one of a set of stored values, or None
    (also where it takes longer than a bound, in µs)."""

    def __init__(
        self,
        graph: KernelGraph,
        target: Target,
        limits: SearchLimits,
        report: SearchReport,
        deadline: float,
        solve: Callable[[tuple[Value, ...], float], Plan | None],
    ) -> None:
        self.graph, self.target, self.limits, self.report = graph, target, limits, report
        self.deadline = deadline
        self._solve = solve
        self.definitions: dict[Value, Op] = {r: op for op in graph.ops for r in op.results}
        self._memo: dict[frozenset[Value], tuple[float, Plan] | None] = {}

    def first(self) -> list[tuple[Value, ...]]:
        """Sets of stored values that will be looked at in any case, to be solved ahead in
        parallel."""
        values = self.intermediates()
        if len(values) <= EXHAUSTIVE:
            return self._cuts(values)[: self.limits.plans]
        return [tuple(values), *(tuple(v for v in values if v is not w) for w in values)]

    def plans(self) -> Iterator[Plan]:
        """Plans worth considering, in the order of discovery."""
        values = self.intermediates()
        if len(values) <= EXHAUSTIVE:
            yield from self._exhaustive(values)
        else:
            yield from self._local(values)

    # ---- what may be stored

    def intermediates(self) -> list[Value]:
        """Values worth storing: no views, nothing that the next elementwise op changes or that is
        cheap to recompute."""
        users: dict[Value, list[Op]] = {}
        for op in self.graph.ops:
            for v in op.operands:
                users.setdefault(v, []).append(op)
        out: dict[Value, None] = {}
        shallow: set[Value] = set(self.graph.inputs)
        for op in self.graph.ops:
            elementwise = not isinstance(op, Matmul | Reduce)
            if isinstance(op, Constant) or (elementwise and all(v in shallow for v in op.operands)):
                shallow.update(op.results)
                continue
            if len(op.results) != 1:
                continue
            (value,) = op.results
            while len(uses := users.get(value, [])) == 1 and isinstance(uses[0], View):
                value = uses[0].result  # stored in the layout in which it is used
            if value in self.graph.outputs or not uses:
                continue
            if not (len(uses) == 1 and self._absorbs(uses[0], value)):
                out[value] = None
        return list(out)

    def _absorbs(self, use: Op, value: Value) -> bool:
        if isinstance(use, Unary | Cast):
            return True
        if not isinstance(use, Binary):
            return False
        others = [v for v in use.operands if v is not value]
        return all(isinstance(self.definitions.get(v), Constant) for v in others)

    # ---- exhaustive

    def _exhaustive(self, values: list[Value]) -> Iterator[Plan]:
        best = float("inf")
        for cut in self._cuts(values):
            if self._stopped(best):
                return
            self.report.plans += 1
            if self._floor(cut) > 1.25 * best:
                self.report.pruned += 1
                continue
            found = self._evaluate(frozenset(cut), cut, HOPELESS * best)
            if found is not None:
                best = min(best, found[0])
                yield found[1]

    def _cuts(self, values: list[Value]) -> list[tuple[Value, ...]]:
        cuts: list[tuple[Value, ...]] = []
        for count in range(min(self.limits.cuts, len(values)) + 1):
            cuts.extend(combinations(values, count))
        return sorted(cuts, key=lambda cut: (len(cut) > 0, self._floor(cut)))

    def _floor(self, cut: tuple[Value, ...]) -> float:
        """A bound from below: bytes that the plan cannot avoid, and its launches."""
        size = sum(v.type.bytes for v in (*self.graph.inputs, *self.graph.outputs))
        size += sum(v.type.bytes for v in cut)
        fixed = self.target.launch + self.target.latency
        return (
            size / self.target.dram_bytes + fixed * (len(cut) + 1) + self.target.combine * len(cut)
        )

    def _stopped(self, best: float) -> bool:
        if best < float("inf") and time.perf_counter() > self.deadline:
            self.report.stop = StopReason.BUDGET
        elif self.report.plans >= self.limits.plans:
            self.report.stop = StopReason.LIMIT
        return self.report.stop in (StopReason.BUDGET, StopReason.LIMIT)

    def _evaluate(
        self, key: frozenset[Value], cut: tuple[Value, ...], bound: float
    ) -> tuple[float, Plan] | None:
        if key not in self._memo:
            plan = self._solve(cut, bound)
            self._memo[key] = None if plan is None else (plan_time(plan, self.target), plan)
        return self._memo[key]

    # ---- local

    def _local(self, values: list[Value]) -> Iterator[Plan]:
        self.report.note(
            f"more than {EXHAUSTIVE} intermediates: sets of stored values were searched locally"
        )
        rank = {v: i for i, v in enumerate(values)}

        def order(value: Value) -> tuple[bool, int]:
            op = self.definitions[value]
            while isinstance(op, View) and op.operands[0] in self.definitions:
                op = self.definitions[op.operands[0]]
            return isinstance(op, Matmul), rank[value]

        def evaluate(state: frozenset[Value]) -> tuple[float, Plan] | None:
            self.report.plans += state not in self._memo
            cut = tuple(sorted(state, key=lambda v: rank[v]))
            return self._evaluate(state, cut, HOPELESS * best)

        state, best = frozenset(values), float("inf")
        found = evaluate(state)
        best = best if found is None else found[0]
        if found is not None:
            yield found[1]
        moved = True
        while moved:
            moved = False
            for value in sorted(values, key=order):
                if best < float("inf") and time.perf_counter() > self.deadline:
                    self.report.stop = StopReason.BUDGET
                    return
                other = state ^ {value}
                known = other in self._memo
                found = evaluate(other)
                if found is None:
                    continue
                if not known:
                    yield found[1]
                if found[0] < best - 1e-9:
                    state, best, moved = other, found[0], True
