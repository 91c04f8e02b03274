"""The intermediate values that a program writes to device memory.

A *plan* is a set of stored values; every stored value is computed by a kernel, alone or with
others, from the program's inputs and other stored values (intermediates that are not stored are
recomputed where they are needed). Plans are the partitions of a program
(:mod:`mirage.search.program.cheapest_partitions`); a part's cost is the predicted time of its best
kernel. A kernel is solved once, for all plans that contain it.

Kernels are considered from small to large ones, under two assumptions: if there is no kernel for
some values, there is none that computes them with more inside; and a larger kernel takes at least
the share :data:`RELIEF` of the smaller kernel's time, not counting reads that it saves. So hopeless
kernels are recognised at a small size, where solving is cheap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from math import inf

from mirage.cost.first_bytes import after_another
from mirage.cost.target import Target
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.solver import HOPELESS
from mirage.search.kernel.workers import Region
from mirage.search.limits import SearchLimits, SearchReport, StopReason, Timer
from mirage.search.program.cheapest_partitions import TOLERANCE, Partitions, search
from mirage.search.program.cuts import Cuts
from mirage.search.program.dag import Part
from mirage.search.program.parts import Program
from mirage.semantics.ugraph import Op, Source, Value


@dataclass(frozen=True)
class Kept:
    """Ops that stay unchanged: they cannot be part of a kernel, or no kernel was found for their
    results. ``time`` is in predicted µs; ops that are in every plan count as zero."""

    ops: tuple[Op, ...]
    time: float = 0.0


Step = Pick | Kept
"""A step of a plan: a kernel to be written, or ops that stay unchanged."""

RELIEF = 0.9
"""The least share of a smaller part's time, without reads that it saves, that a larger part of the
same value takes."""
NEARLY, NEARLY_LATE = 0.99, 0.97
"""The search drops plans whose bounds are no better than this share of the best one: the first
number holds always, the second one after half of the plans that it may examine. Predictions are not
more exact than that."""
ENOUGH = 0.45
"""After this many kernels per plan that it may examine, the search accepts a plan that is still the
best one at the next smaller doubt."""
WORTH_KNOWING = 1.5
"""The search solves all parts of a proposal that takes at most this multiple of the best plan:
kernels of the best one may spill once they are compiled (normalized rows of 65,536 elements)."""
SEVERAL = 2
"""The number of matmuls from which on a kernel takes long to solve, especially if it computes more
inside: a bound from a smaller kernel makes others unnecessary."""
CUTTING = 0.4
"""The largest share of its time that the search spends on the program's cuts."""
PLANS = "plans"
"""The report's name of the bound on the plans that are examined."""
RANKED = 8
"""The number of plans for each wanted candidate: each may have kernels that cannot be written."""


@dataclass(frozen=True)
class Plan:
    """For each kernel (or unchanged op), in order, its region and the ways to compute it, cheapest
    first."""

    regions: tuple[Region, ...]
    options: tuple[list[Step], ...]

    def time(self, target: Target) -> float:
        """Return the predicted µs with the cheapest kernels."""
        total = sum(step_time(options[0]) for options in self.options)
        return total + after_another(target) * max(0, len(self.options) - 1)


def step_time(step: Step) -> float:
    """Return the predicted µs of a step."""
    if isinstance(step, Kept) or step.written is None:
        return step.time
    return step.written.cost.time


class PlanSearch:
    """Finds the best plans of one program.

    ``solve`` returns the ways to compute a region, and ``submit`` announces regions that will be
    needed. ``watch`` is called after each kernel with the predicted µs of the best known plan,
    infinite if there is none. ``cuts`` are those of an earlier search of the same program."""

    def __init__(
        self,
        program: Program,
        limits: SearchLimits,
        report: SearchReport,
        deadline: float,
        solve: Callable[[Region], list[Pick]],
        submit: Callable[[list[Region]], None],
        watch: Callable[[float], None],
        cuts: Cuts | None = None,
    ) -> None:
        self.program, self.limits, self.report = program, limits, report
        self.deadline, self._solve, self._submit = deadline, solve, submit
        self._watch, self._best = watch, inf
        self._settled_at = inf
        self._ended = False
        self._solved: set[Part] = set()
        self._regions: dict[Part, Region] = {}
        self._read: dict[Part, frozenset[Value]] = {}
        with Timer(report, "partition"):
            self.cuts = cuts or self._cuts()
            self.partitions = Partitions(self.cuts)

    def _cuts(self) -> Cuts:
        now = time.perf_counter()
        until = now + CUTTING * max(0.0, self.deadline - now)
        limits, dag = self.limits, self.program.dag
        return Cuts(dag, self._possible, self._floor, limits.cuts, limits.outputs, until)

    def plans(self) -> list[Plan]:
        """Return the best plans, the cheapest first; empty if no plan has kernels for all its
        values.

        They are the cheapest ones of all, unless the report says otherwise.
        """
        report, partitions, cuts = self.report, self.partitions, self.cuts
        if cuts.cut_off:
            states = f"{cuts.cut_off} of {cuts.cut_off + cuts.states} states"
            why = ", for lack of time" if cuts.hurried else ""
            report.cut("cuts", f"{states} of the program's cuts{why}")
        first = [p for p in cuts.parts if len(p.nodes) == 1 and not self._inside(p)]
        self._settle_all(first, first, inf)
        bound, report.plans = search(partitions, self._advance, self._stopped, self._settled)
        best = partitions.cheapest(known=True)[0]
        if bound < best < inf and self._ended:
            report.note(f"plans that are up to {best - bound:.1f} us faster were not excluded")
        if not self._ended and partitions.cheapest(proven=True)[0] < best - TOLERANCE:
            how = f"kernels that hold a smaller one and take at least {RELIEF:.0%} of its time"
            report.cut("larger kernels", how)
        ranked = partitions.ranked(HOPELESS * best)
        return [self._plan(parts) for _, parts in islice(ranked, RANKED * self.limits.candidates)]

    # ---- parts

    def _region(self, part: Part) -> Region:
        if part not in self._regions:
            self._regions[part] = self.program.region_of(part)
        return self._regions[part]

    def _inputs(self, part: Part) -> frozenset[Value]:
        """Return the inputs of a part's region. (Bounds are given to thousands of parts, of which
        few are ever solved, so the regions themselves are not made.)"""
        if part not in self._read:
            self._read[part] = frozenset(self.program.inputs_of(part))
        return self._read[part]

    def _stays(self, part: Part) -> bool:
        return self.program.stays(self.program.nodes[part.nodes[0]])

    def _inside(self, part: Part) -> list[int]:
        return self.program.dag.inside(part)

    def _matmuls(self, part: Part) -> int:
        return self.program.matmuls(part)

    def _possible(self, part: Part) -> bool:
        return self._stays(part) or self._matmuls(part) <= self.limits.matmuls

    def _floor(self, part: Part) -> float:
        target = self.program.target
        if self._stays(part):
            return target.combine
        return self.program.floor(part) + after_another(target)

    def _advance(self, unsolved: list[Part], cost: float) -> None:
        """Solve the next part on the way to each part, the smallest first, until the proposal that
        they belong to, which takes at least ``cost`` µs, is much worse than the best known one."""
        by_size = sorted(unsolved, key=lambda p: (len(self._region(p).graph.ops), p))
        self._settle_all(
            [self._next(part) for part in by_size], unsolved, WORTH_KNOWING * self._best - cost
        )

    def _next(self, part: Part) -> Part:
        """Return the smallest unsolved part on the way to ``part``: single results come before
        several, fewer matmuls before more, and of the parts with the same :data:`SEVERAL` matmuls
        or more the smallest one, which bounds all others, before the largest."""
        if len(part.nodes) > 1:
            for node in part.nodes:
                single = self.program.dag.single(part, node)
                if self.partitions.unsolved(single):
                    return self._next(single)
            return part
        least: dict[int, Part] = {}
        most: dict[int, Part] = {}
        for each in (*self.program.dag.smaller(part), part):
            matmuls = self._matmuls(each)
            least.setdefault(matmuls, each)
            most[matmuls] = each
        way = ((least[n], most[n]) if n >= SEVERAL else (most[n],) for n in most)
        return next(p for parts in way for p in parts if self.partitions.unsolved(p))

    def _settle_all(self, parts: list[Part], proposed: list[Part], spare: float) -> None:
        """Solve parts until the proposed ones, which they belong to, take ``spare`` µs more."""
        parts = list(dict.fromkeys(parts))
        self._submit([self._region(p) for p in parts if not self._stays(p)])
        limit = self._bound(proposed) + spare
        for part in parts:
            self.settle(part)
            if not self._bound(proposed) < limit:
                break

    def _bound(self, parts: list[Part]) -> float:
        return sum(self.partitions.cost(part) for part in parts)

    def settle(self, part: Part) -> float:
        """Solve a part; return its µs plus the time between two kernels."""
        target = self.program.target
        if self._stays(part):
            self.partitions.settle(part, target.combine)
            return target.combine
        region = self._region(part)
        picks = self._solve(region)
        self._solved.add(part)
        between = after_another(target)
        cost = step_time(picks[0]) + between if picks else inf
        if not picks and len(part.nodes) == 1 and not self._inside(part):
            # nothing smaller computes the value: the ops themselves, each a kernel of its own
            cost = self.program.unfused(region.graph) + between
            self.partitions.settle(part, cost)
            return cost

        def larger(other: Part) -> float:
            left = self._inputs(other)
            saved = sum(v.type.bytes for v in region.graph.inputs if v not in left)
            least = RELIEF * (cost - between) - 2.0 * saved / target.dram_bytes
            return least + between

        self.partitions.settle(part, cost)
        self.partitions.raise_larger(part, larger)
        self._watch(self._best)
        return cost

    def _stopped(self, proposals: int, bound: float) -> bool:
        self._best = self.partitions.cheapest(known=True)[0]
        nearly = NEARLY_LATE if 2 * proposals >= self.limits.plans else NEARLY
        if proposals >= self.limits.plans:
            self._end("all sets of stored intermediates after the first ones")
        elif bound >= nearly * self._best:
            self._end(f"those that are at most {1.0 - nearly:.0%} faster")
        if time.perf_counter() > self.deadline:
            self.report.stop = StopReason.BUDGET
            self._ended = True
        return self._ended

    def _end(self, how: str) -> None:
        self.report.cut(PLANS, how)
        self._ended = True

    def _settled(self, doubt: float) -> bool:
        """Return whether to accept a plan that is the best at a doubt: it was the best at a larger
        one, too."""
        before, self._settled_at = self._settled_at, self.partitions.cheapest(known=True)[0]
        done = self._settled_at >= before and len(self._solved) >= ENOUGH * self.limits.plans
        if done:
            self._end("those whose bounds are better, after enough kernels")
        return done

    # ---- plans

    def _plan(self, parts: list[Part]) -> Plan:
        regions = [self._region(part) for part in parts]
        options: list[list[Step]] = []
        for part, region in zip(parts, regions, strict=True):
            picks = [] if self._stays(part) else self._solve(region)
            options.append(list(picks) or [self._as_it_is(part)])
        return Plan(tuple(regions), tuple(options))

    def _as_it_is(self, part: Part) -> Kept:
        """Return the program's own ops; constants are written where they are read."""
        if self._stays(part):
            return Kept((self.program.definitions[self.program.nodes[part.nodes[0]]],))
        graph = self._region(part).graph
        ops = tuple(op for op in graph.ops if not isinstance(op, Source))
        return Kept(ops, self.program.unfused(graph))

    def op_by_op(self) -> Plan:
        """Return the plan that stores every value; ops without a kernel stay unchanged. Constants
        are written where they are read, and stored only as outputs."""
        program = self.program
        constants = {v for op in program.graph.ops if isinstance(op, Source) for v in op.results}
        stored = program.live - constants.difference(program.graph.outputs)
        regions: list[Region] = []
        options: list[list[Step]] = []
        for op in program.graph.ops:
            for value in op.results:
                if value in stored:
                    region = program.region((value,), stored)
                    picks = [] if op in program.kept else self._solve(region)
                    regions.append(region)
                    options.append(list(picks) or [Kept((op,))])
        return Plan(tuple(regions), tuple(options))
