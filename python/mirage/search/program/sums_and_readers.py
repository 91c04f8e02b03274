"""Kernels that add up partial sums and compute with the results at once.

Blocks that share the sums of a product store partial sums, which a further kernel adds up. If what
a plan computes next from the results needs no products, such as the norms of their rows, one kernel
can do both. The plan is chosen without this, and kernels are joined where that saves time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mirage.cost.cost_report import CostReport
from mirage.search.kernel.emission.bodies import EmitError
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.problem import Solution, Written
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Region
from mirage.search.program.plans import Step
from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import Contraction, KernelGraph, Launch, Value, all_ops, launches

_Values = tuple[Value, ...]
Pair = tuple[Region, Step]
"""A region of a plan, and the way to compute it."""


def _reads(pair: Pair) -> frozenset[Value]:
    region, step = pair
    if isinstance(step, Pick):
        return frozenset(region.graph.inputs)
    return frozenset(v for op in step.ops for v in op.operands)


def _makes(pair: Pair) -> frozenset[Value]:
    region, step = pair
    if isinstance(step, Pick):
        return frozenset(region.graph.outputs)
    return frozenset(v for op in step.ops for v in op.results)


@dataclass
class SumsAndReaders:
    """Joins combine kernels with the kernels that read their results, for the program with these
    ``inputs`` and ``outputs``."""

    solver: KernelSolver
    inputs: _Values
    outputs: _Values
    _known: dict[tuple[int, int, _Values], tuple[Pick, Pick, Pick | None]] = field(
        default_factory=dict[tuple[int, int, _Values], tuple[Pick, Pick, Pick | None]]
    )
    """By the identities of both ways (which are kept alive) and by the results."""
    _refused: set[_Values] = field(default_factory=set[_Values])

    def joined(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the steps of a plan with those joined that take less time as one."""
        there = set(self.inputs)
        for place, pair in enumerate(pairs):
            reader = self._reader(pairs, place, there)
            if reader is not None:
                others = [p for p in pairs if p is not pair and p is not reader]
                both = self._both(pair, reader, {v for p in others for v in _reads(p)})
                if both is not None:
                    return self.joined([both if p is pair else p for p in pairs if p is not reader])
            there |= _makes(pair)
        return list(pairs)

    def refuse(self, picks: Iterable[Pick]) -> None:
        """Never again join kernels to one of these."""
        refused = {id(pick) for pick in picks}
        for (_, _, results), (*_, pick) in self._known.items():
            if pick is not None and id(pick) in refused:
                self._refused.add(results)

    def _reader(self, pairs: Sequence[Pair], place: int, there: set[Value]) -> Pair | None:
        """Return the first step that reads the sums of the step at a place, if it can be computed
        there: it has no products, and its other operands are available there and no larger."""
        region, step = pairs[place]
        if any(op.function is UnaryFn.EXP for op in all_ops(region.graph.ops)):
            return None  # the maxima by which these are shifted later read the sums in memory
        solution = self.solver.write(step) if isinstance(step, Pick) else None
        if solution is None or solution.combined is None:
            return None
        totals = frozenset(region.graph.outputs)
        reader = next((p for p in pairs[place + 1 :] if not totals.isdisjoint(_reads(p))), None)
        if reader is None or not isinstance(reader[1], Pick):
            return None
        largest = max(v.type.size for v in totals)
        small = all(v in totals or (v in there and v.type.size <= largest) for v in _reads(reader))
        ops = all_ops(reader[0].graph.ops)
        products = any(isinstance(op, Contraction) and len(op.operands) > 1 for op in ops)
        return reader if small and not products else None

    def _both(self, first: Pair, second: Pair, read: set[Value]) -> Pair | None:
        """Return two steps as one, of which other steps ``read`` some results; None if that does
        not take less time."""
        (region, pick), (reader, reading) = first, second
        assert isinstance(pick, Pick)
        assert isinstance(reading, Pick)
        kept = (v for v in region.graph.outputs if v in read or v in self.outputs)
        results = tuple(sorted((*reader.graph.outputs, *kept), key=lambda v: -v.type.size))
        if results in self._refused:
            return None
        key = id(pick), id(reading), results
        if key not in self._known:
            self._known[key] = pick, reading, self._solved(pick, reading, reader, results)
        found = self._known[key][-1]
        if found is None:
            return None
        ops = (*region.graph.ops, *reader.graph.ops)
        inputs = dict.fromkeys((*region.graph.inputs, *reader.graph.inputs))
        given = tuple(v for v in inputs if v not in region.graph.outputs)
        return replace(region, graph=KernelGraph(region.graph.name, given, ops, results)), found

    def _solved(self, pick: Pick, reading: Pick, reader: Region, results: _Values) -> Pick | None:
        target, first = self.solver.target, self.solver.write(pick)
        second = self.solver.write(reading)
        if first is None or second is None or first.combined is None:
            return None
        adding, reads = first.combined, reader.graph
        made = {v for op in adding.ops for v in op.results}
        own = dict.fromkeys((*adding.inputs, *(v for v in reads.inputs if v not in made)))
        graph = KernelGraph(adding.name, tuple(own), (*adding.ops, *reads.ops), results)
        kernel = next(launches(first.ops))
        hot = frozenset((*kernel.results, *(reads.inputs[i] for i in reader.hot)))
        try:
            combination = self.solver.combine(graph, hot.intersection(own))
        except EmitError:
            return None
        reports = (combination.report(op, hot, target) for op in launches(combination.ops))
        before = first.cost.parts[0] if first.cost.parts else first.cost
        cost = CostReport.sequence((before, *reports), target)
        apart = CostReport.sequence((first.cost, second.cost), target)
        if cost.time >= apart.time:
            return None
        ops = (*_up_to(first, kernel), *combination.ops)
        description = f"{first.description}, {second.description}"
        return Pick(cost.time, None, Solution(ops, cost, description))


def _up_to(solution: Solution, kernel: Launch) -> Written:
    """Return a solution's first kernel, with the views before it."""
    return solution.ops[: solution.ops.index(kernel) + 1]
