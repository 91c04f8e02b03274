"""A single kernel problem: tensors in, tensors out, and the cheapest launches that compute them."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from mirage.cost.compilable import CheckError
from mirage.cost.target import Target
from mirage.search.algebra.axes import AxisTable, UnlabelableError
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.extract import Choices
from mirage.search.kernel.derivations.moves import Edge
from mirage.search.kernel.derivations.type_derivations import Derived, TypeDerivations
from mirage.search.kernel.emission.bodies import EmitError
from mirage.search.kernel.emission.combine_kernels import Combination, CombineKernel, Key, key_of
from mirage.search.kernel.emission.joint_kernels import WAYS, JointKernels, may_join
from mirage.search.kernel.emission.launches import Draft, write_draft
from mirage.search.kernel.emission.picks import Pick, best_sizes
from mirage.search.kernel.estimates.derivation_costs import Measure, Stored
from mirage.search.kernel.estimates.edge_costs import Known
from mirage.search.kernel.estimates.floors import combined_floor, time_before
from mirage.search.kernel.estimates.promising_sizes import may_store, promising
from mirage.search.kernel.estimates.sizing import Sizing
from mirage.search.kernel.loop_nests.columns import SWIZZLED_ROW, Columns, columns_of
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.nested import nested_types
from mirage.search.kernel.loop_nests.problem_axes import Analysis, analyze
from mirage.search.kernel.problems.narrowing import Narrowing, half_type, narrowing_of
from mirage.search.kernel.problems.problem import KernelProblem, Solution
from mirage.search.kernel.problems.read_lengths import read_lengths
from mirage.search.kernel.problems.tile_groups import groups_of
from mirage.search.kernel.recent_problems import RecentProblem, RecentProblems
from mirage.search.limits import SearchLimits, SearchReport, StopReason, Timer
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value

HOPELESS = 1.5
"""The factor on the best time above which ways to compute a value are not considered."""
TRUSTED = 1.25
"""The factor by which the cost of a written kernel may exceed its estimate."""
HELD_ROW = 0.5
"""The share of an SM's registers from which on rows are also read twice: a block that holds one
leaves no room for another block, which would load while this one computes."""
DOUBTED = 8
"""The number of choices of sizes whose estimates are compared with written kernels."""


def _limit(times: list[float], count: int | None) -> float:
    """Return the predicted µs above which another way to compute a value is of no use."""
    if not times or count is None:
        return inf
    nth = sorted(times)[count - 1] if len(times) >= count else inf
    return min(nth, HOPELESS * min(times))


@dataclass
class KernelSolver:
    """Solves kernel problems for one target within limits, and collects the report."""

    target: Target
    limits: SearchLimits
    report: SearchReport
    deadline: float = field(default=float("inf"))
    combined: dict[Key, CombineKernel] = field(default_factory=dict[Key, CombineKernel])
    _joints: dict[SearchLimits, JointKernels] = field(
        default_factory=dict[SearchLimits, JointKernels]
    )
    _recent: RecentProblems = field(default_factory=RecentProblems)
    _left_out: int = 0  # frame types of the problem that were not examined

    @property
    def _joint(self) -> JointKernels:
        """The object that joins the kernels of groups of results, within the present limits."""
        if self.limits not in self._joints:

            def solve(group: KernelProblem) -> list[Pick]:
                return self.solve(group, WAYS, to_join=True)

            joint = JointKernels(self.target, solve, self._times, self.combine)
            self._joints[self.limits] = joint
        return self._joints[self.limits]

    @property
    def derivations(self) -> TypeDerivations:
        """The derivations in each type of frame."""
        return TypeDerivations(self.limits, self.report)

    def solve(
        self, problem: KernelProblem, count: int | None = None, *, to_join: bool = False
    ) -> list[Pick]:
        """Return ways to compute the output, cheapest first; none if it cannot be labelled or does
        not fit. If no more than ``count`` are wanted, ways that cannot be among them are not
        examined. If they are wanted ``to_join`` them with others, ways that cannot be joined are
        not examined."""
        groups = groups_of(problem)
        if len(groups) > 1:
            return self._joint.picks(groups)
        self.report.kernels += 1
        try:
            recent = self._recently(problem)
        except UnlabelableError as error:
            self.report.note(str(error))
            return []
        found = recent.analyses
        if len(found[0].use.matmuls) > self.limits.matmuls:
            self.report.note(
                f"kernels of more than {self.limits.matmuls} matmuls were not examined"
            )
            return []
        half = None if problem.combine else half_type(list(problem.leaves))
        narrowing = narrowing_of(problem, half)
        for enough in (None,) if count is None else (count, None):
            picks: list[Pick] = []
            self._left_out = 0
            for number in range(len(found)):
                picks.extend(
                    self._solve_analysis(recent, number, picks, narrowing, enough, to_join)
                )
            picks.sort(key=lambda p: p.time)  # stable: ties stay in the order of the frame types
            self._doubt(picks)
            if picks or not self._left_out:
                return picks
        return []

    def _recently(self, problem: KernelProblem) -> RecentProblem:
        """Return the analyses of a problem, and what was found if it was solved recently."""
        recent = self._recent.get(problem, self.limits)
        if recent is None:
            with Timer(self.report, "analyze"):
                held = HELD_ROW * self.target.registers_sm
                found = self._bounded(analyze(problem, self.target.has_warpgroups, held))
            recent = self._recent.add(problem, self.limits, found)
        return recent

    def _bounded(self, analyses: list[Analysis]) -> list[Analysis]:
        """Return the analyses with no more classes of rows than the limit."""
        found = [a for a in analyses if a.classes <= self.limits.row_classes]
        if len(found) < len(analyses):
            self.report.cut("row_classes", "rows of a factor were not divided into classes")
        return found

    def _doubt(self, picks: list[Pick]) -> None:
        """Drop the first picks that cannot be written, and raise estimates that are far too low: a
        written kernel shows its registers, and so how many blocks run at once. Such an error is
        caused by the sizes and affects all derivations at them; without this correction they would
        all precede better ones."""
        known: set[tuple[FrameType, int] | None] = set()
        while picks and len(known) < DOUBTED:
            first = picks[0]
            solution = self.write(first)
            if solution is None:
                other = picks.pop(0).next()
                if other is not None:
                    insort(picks, other, key=lambda p: p.time)
                continue
            times = solution.cost.time / first.time
            if first.sizes in known or times <= TRUSTED:
                return
            known.add(first.sizes)
            for pick in picks:
                if pick.sizes == first.sizes:
                    pick.time *= times
            picks.sort(key=lambda p: p.time)

    def _solve_analysis(
        self,
        recent: RecentProblem,
        number: int,
        others: list[Pick],
        narrowing: Narrowing,
        count: int | None,
        to_join: bool,
    ) -> list[Pick]:
        analysis = recent.analyses[number]
        picks: list[Pick] = []

        def late() -> bool:
            if time.perf_counter() <= self.deadline or not (picks or others):
                return False
            self.report.stop = StopReason.BUDGET
            return True

        for kind in analysis.use.types():
            if not analysis.has(kind) or (to_join and not may_join(kind)):
                continue
            if late():
                return picks
            limit = _limit([p.time for p in (*others, *picks)], count)
            if combined_floor(analysis, kind, self.target) >= limit:
                self._left_out += 1
                continue
            known = recent.picks(number, kind)
            if known is None:
                known = self._solve_type(analysis, kind, narrowing, limit)
                if may_join(kind):  # its picks do not depend on the limit
                    recent.add(number, kind, known)
            picks.extend(known)
        if analysis.problem.combine or analysis.shifted is not None or analysis.use.twice:
            return picks
        if to_join:  # no kernel with nested loops may
            return picks
        best = min((p.time for p in (*picks, *others)), default=inf)
        for kind in nested_types(analysis, self.target, best):
            if late():
                break
            picks.extend(self._solve_type(analysis, kind, narrowing))
        return picks

    # ---- one frame type

    def _solve_type(
        self, analysis: Analysis, kind: FrameType, narrowing: Narrowing, limit: float = inf
    ) -> list[Pick]:
        """Return ways to compute the outputs in a frame type; those that take ``limit`` µs or more
        are of no use."""
        picks: list[Pick] = []
        with Timer(self.report, "size"):
            sizes = self._sizes(analysis, kind)
        if sizes is None:
            return picks
        with Timer(self.report, "derive"):
            graphs, doubtful = self.derivations.of(analysis, kind, narrowing)
            again = kind.loop is not None and kind.inner is None and not analysis.problem.combine
            tried = [(kind, graphs)] if graphs else []
            if again and (doubtful or not graphs):
                tried.extend(self.derivations.in_passes(analysis, kind, narrowing, not doubtful))
        for its, found in tried:
            hopeful = [g for g in found if self._floor(analysis, its, *g, sizes) < limit]
            self._left_out += len(hopeful) < len(found)
            if hopeful and sizes.cut:
                self.report.cut("columns", "of some types of frame a sample of the tile sizes")
            picks.extend(self._size(analysis, its, hopeful, sizes))
        sizes.forget()
        return picks

    def _floor(
        self,
        analysis: Analysis,
        kind: FrameType,
        derivations: Derivations,
        targets: tuple[Goal, ...],
        sizes: Sizing,
    ) -> float:
        """Return the least µs of the derivations of a type."""
        if kind.split is None:
            return 0.0
        measure = self._measure(analysis, derivations, sizes.columns, sizes.known)
        partial = measure.least_partial_bytes(targets[0])
        return combined_floor(analysis, kind, self.target, partial)

    def _sizes(self, analysis: Analysis, kind: FrameType) -> Sizing | None:
        """Return the choices of sizes of a type at which all tensors that every derivation loads or
        stores can be tiled; None if there are none."""
        problem = analysis.problem
        halves = half_type(list(problem.leaves)) is not None
        row = SWIZZLED_ROW // 2 if halves else SWIZZLED_ROW // 4 if problem.tf32 else 0
        tiled = (analysis.dims[0], *(atom.dims for atom in analysis.reads_first(kind)))
        found = columns_of(
            analysis.use, kind, self.limits.columns, self.limits.seed,
            row if self.target.has_warpgroups else 0,
            self.target.has_clusters,
            lambda columns: columns.suiting(tiled, problem.table.sizes),
        )  # fmt: skip
        if found is None:
            return None
        columns, cut = found
        return Sizing(columns, cut) if not columns.warpgroups.all() else None

    def _size(
        self,
        analysis: Analysis,
        kind: FrameType,
        graphs: Derived,
        sizes: Sizing,
    ) -> list[Pick]:
        """Return the best sizes of the derivations of a type."""
        picks: list[Pick] = []
        for derivations, targets in graphs:
            self.report.frames += sizes.columns.count
            measure = self._measure(analysis, derivations, sizes.columns, sizes.known)
            with Timer(self.report, "extract"):
                few, known = sizes.few, sizes.known_few
                rough = measure
                if few is not sizes.columns:
                    rough = self._measure(analysis, derivations, few, known)
                structures = self._extract(analysis, rough, targets)
                if kind.inner is not None:
                    structures = [s for s in structures if derivations.is_nest(s)]
            with Timer(self.report, "cost"):
                for edges in structures:
                    draft = Draft(analysis, measure, targets, edges, 0, kind)
                    picks.extend(best_sizes(self._times(draft), draft))
        return picks

    def _times(self, draft: Draft) -> np.ndarray[Any, Any]:
        """Return the predicted µs of a draft at each choice of sizes."""
        analysis = draft.analysis
        outputs = zip(analysis.problem.outputs, analysis.dims, strict=True)
        stored = [Stored(v.type, dims) for v, dims in outputs]
        times = draft.measure.time(draft.edges, stored) + time_before(analysis, self.target)
        fits = may_store(analysis, draft.measure, draft.edges, draft.targets)
        return np.where(fits, times, np.inf)

    def _measure(
        self, analysis: Analysis, derivations: Derivations, columns: Columns, known: Known
    ) -> Measure:
        problem = analysis.problem
        tensors = list(problem.leaves)
        half = half_type(tensors)
        read = tuple(problem.read_bytes(v) for v in tensors)
        cuts = dict(problem.cuts)
        return Measure(
            derivations, columns, tensors, problem.table.sizes, half is not None, problem.tf32,
            analysis.coarse, analysis.shifted, self.target, read,
            tuple(cuts.get(v) for v in tensors), known, read_lengths(problem),
        )  # fmt: skip

    def _extract(
        self, analysis: Analysis, rough: Measure, targets: tuple[Goal, ...]
    ) -> list[list[Edge]]:
        """Return the best derivations at a few promising choices of sizes."""
        choices = Choices(rough.derivations, targets)
        costs = rough.edge_costs(choices.needs)
        structures: dict[frozenset[Edge], list[Edge]] = {}
        k = (
            self.limits.derivations
            if len(choices.edges) <= 500
            else max(2, self.limits.derivations // 2)
        )
        for sample in promising(rough, choices, costs, analysis.dims[0], self.limits.samples):
            for chosen in choices.k_best(costs[:, sample].tolist(), k):
                edges = choices.select(chosen)
                structures.setdefault(frozenset(edges), edges)
        self.report.derivations += len(structures)
        if choices.dropped:
            self.report.cut("derivations", "of each value the cheapest at a few choices of sizes")
        return list(structures.values())

    # ---- writing launches

    def write(self, pick: Pick) -> Solution | None:
        """Return the launches of a pick, or None if they exceed a limit of the code generator."""
        if pick.ready is not None:
            pick.written = pick.ready
        elif pick.like is not None and pick.written is None:
            like = self.write(pick.like)
            pick.written = None if like is None else like.renamed(pick.names)
        elif pick.draft is not None and pick.written is None and not pick.refused:
            try:
                with Timer(self.report, "emit"):
                    pick.written = write_draft(pick.draft, self.target, self.combine)
            except (EmitError, CheckError) as error:
                pick.refused = True
                self.report.pruned += 1
                self.report.note(f"not every derivation can be written down: {error}", alike=True)
        return pick.written

    def combine(self, graph: KernelGraph, hot: frozenset[Value]) -> Combination:
        """Return the best launch of a combine program; equal programs are solved once."""
        key = key_of(graph, hot)
        if key not in self.combined:
            solution = self._solve_combine(graph, hot)
            written = () if solution is None else solution.ops
            self.combined[key] = CombineKernel(graph.inputs, graph.outputs, written)
        if not self.combined[key].ops:
            raise EmitError("expected a combine kernel, found none")
        return self.combined[key].written_for(graph)

    def _solve_combine(self, graph: KernelGraph, hot: frozenset[Value]) -> Solution | None:
        definitions = {r: op for op in graph.ops for r in op.results}
        problem = KernelProblem(
            graph.outputs, graph.inputs, definitions, AxisTable.of(graph), combine=True, hot=hot,
            rounded=_rounded_and_read(definitions),
        )  # fmt: skip
        limits = SearchLimits(candidates=1, derivations=2, columns=2000, samples=1)
        solver = KernelSolver(self.target, limits, SearchReport())
        for pick in solver.solve(problem):
            solution = solver.write(pick)
            if solution is not None:
                return solution
        return None


def _rounded_and_read(definitions: Mapping[Value, Op]) -> frozenset[Value]:
    """Return the values that a combine program rounds to 16 bits and computes with."""
    casts = {v: op for v, op in definitions.items() if isinstance(op, Elementwise) and op.converts}
    read = {op.operands[0] for op in casts.values()}
    return frozenset(v for v in casts if v in read and v.dtype.is_half)
