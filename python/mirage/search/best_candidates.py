"""The µGraphs of the best plans: a plan has several kernels for each part, and each combination of
them is a candidate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from mirage.cost.copy_kernels import copies_in, is_unfused, unfused_report
from mirage.cost.cost_report import CostReport
from mirage.cost.target import Target
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Region
from mirage.search.program.parts import Program
from mirage.search.program.plans import Kept, Plan, Step, step_time
from mirage.search.program.shared_views import without_round_trips
from mirage.search.program.sums_and_readers import SumsAndReaders
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Op, Value


@dataclass(frozen=True)
class Candidate:
    """A µGraph whose compute is in launches, and its predicted cost.

    ``stored`` maps each tensor between its kernels to the value of the searched program that it
    holds, in row-major order, whatever the shape; ``picks`` says which kernel computes such a
    value. For a candidate of an earlier run, possibly only its cost and description are known; its
    graph then has no ops."""

    graph: KernelGraph
    cost: CostReport
    description: str
    stored: tuple[tuple[Value, Value], ...] = ()
    picks: Mapping[Value, Pick] = field(default_factory=dict[Value, Pick])

    def pick_of(self, op: Op) -> Pick | None:
        """Return the kernel that an op of the graph was written for."""
        for pick in self.picks.values():
            written = () if pick.written is None else pick.written.ops
            if any(r in op.results for own in written for r in own.results):
                return pick
        return None


def combinations(
    plans: list[Plan], target: Target
) -> Iterator[tuple[tuple[Region, ...], tuple[Step, ...]]]:
    """Yield the ways to choose a step for each part of a plan, over all plans, the cheapest
    first; equal combinations are yielded once."""
    heap: list[tuple[float, int, tuple[int, ...]]] = []
    seen: set[tuple[int, tuple[int, ...]]] = set()
    given: set[frozenset[int]] = set()

    def push(plan: int, choice: tuple[int, ...], time_: float) -> None:
        if (plan, choice) not in seen:
            seen.add((plan, choice))
            heappush(heap, (time_, plan, choice))

    for number, plan in enumerate(plans):
        push(number, (0,) * len(plan.options), plan.time(target))
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


@dataclass(frozen=True)
class Candidates:
    """Writes the candidates of a search."""

    graph: KernelGraph
    target: Target
    solver: KernelSolver
    program: Program
    sums: SumsAndReaders

    def best(self, plans: list[Plan]) -> list[Candidate]:
        """Return the cheapest distinct combinations over all plans, written and ranked by their
        written cost."""
        wanted = self.solver.limits.candidates
        found: dict[str, Candidate] = {}
        for tries, (regions, steps) in enumerate(combinations(plans, self.target)):
            late = tries >= wanted and time.perf_counter() > self.solver.deadline
            if len(found) >= 2 * wanted or tries >= 20 * wanted or (late and found):
                break
            candidate = self._candidate(regions, steps)
            if candidate is not None:
                found.setdefault(signature(candidate.graph), candidate)
        ranked = sorted(found.items(), key=lambda item: (item[1].cost.time, item[0]))
        return [c for _, c in ranked[:wanted]]

    def _candidate(self, regions: Sequence[Region], steps: Sequence[Step]) -> Candidate | None:
        ops: list[Op] = []
        parts: list[CostReport] = []
        words: list[str] = []
        picks: dict[Value, Pick] = {}
        made: set[Value] = set()
        copies = copies_in(self.graph)
        for region, step in self.sums.joined([*zip(regions, steps, strict=True)]):
            if isinstance(step, Kept):
                for op in step.ops:
                    # Something that several parts need may exist already: a cast that two parts
                    # without a kernel compute, or a constant that a kernel has stored.
                    if made.issuperset(op.results):
                        continue
                    added = [*(c for c in self._constants(op) if c.result not in made), op]
                    made.update(v for each in added for v in each.results)
                    ops.extend(added)
                    if is_unfused(op, copies):
                        parts.append(unfused_report(op, self.target))
                continue
            if made.issuperset(region.graph.outputs):
                continue
            solution = self.solver.write(step)
            if solution is None or not made.isdisjoint(region.graph.outputs):
                return None
            made.update(v for op in solution.ops for v in op.results)
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

    def _constants(self, op: Op) -> list[Op]:
        """Return the ops that make the constants that the op reads."""
        needed = (made for v in op.operands for made in self.program.filling(v))
        return list(dict.fromkeys(needed))
