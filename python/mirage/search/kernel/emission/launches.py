"""Conversion of a derivation at one choice of sizes to launches: the kernel, its combine kernel,
and the views that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.cost.cluster_split import split_over_cluster
from mirage.cost.clusters import with_clusters
from mirage.cost.compilable import check_launch
from mirage.cost.cost_report import CostReport
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.overlapping_views import read_from_memory
from mirage.cost.registers import check_registers
from mirage.cost.resident import with_resident_blocks
from mirage.cost.target import Target
from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.moves import Edge, Goal, Load
from mirage.search.kernel.emission.combine import combine_program
from mirage.search.kernel.emission.combine_kernels import Combination
from mirage.search.kernel.emission.emit import Emitter
from mirage.search.kernel.emission.masked_padding import Sizes
from mirage.search.kernel.estimates.derivation_costs import Measure
from mirage.search.kernel.loop_nests.columns import IntArray
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import Analysis
from mirage.search.kernel.problems.narrowing import half_type
from mirage.search.kernel.problems.problem import KernelProblem, Solution, Written
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Launch, Reshape, Value, launches

Combine = Callable[[KernelGraph, frozenset[Value]], Combination]
"""A function that finds the kernel for a combine program, given the inputs that L2 holds; it raises
:class:`EmitError`."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A derivation at one choice of sizes, before its launches are written."""

    analysis: Analysis
    measure: Measure
    targets: tuple[Goal, ...]
    edges: list[Edge]
    column: int
    kind: FrameType

    @property
    def loops(self) -> int:
        """The number of loops over an axis, one after the other; 1 if there is none."""
        ended = self.measure.derivations.phases.ended
        inside = (e.goal[0] for e in self.edges if self.measure.in_loop(e.goal))
        return 1 + max((ended(poly) for poly in inside), default=0)

    def tiles(self) -> dict[Value, IntArray]:
        """Return the bytes of shared memory for the tiles of each leaf, for each choice of sizes.
        Factors are padded to what instructions read; left factors, for example, to 16 rows."""
        measure = self.measure
        found: dict[Value, IntArray] = {}
        for edge in self.edges:
            atom = self._atom(edge)
            if atom is not None:
                axes, contracted = set(measure.labels(edge.goal)), measure.factors.get(edge.goal)
                size = measure.elements(tuple(sorted(axes)))
                if contracted and axes - contracted:
                    unit = 16 if contracted.intersection(atom.dims[-1]) else 8
                    free = measure.elements(tuple(sorted(axes - contracted)))
                    size = size / free * np.ceil(free / unit) * unit
                leaf = self.analysis.problem.leaves[atom.tensor]
                slots = measure.columns.stages if measure.in_loop(edge.goal) else 1
                held = (size * leaf.dtype.bytes * slots).astype(np.int64)
                found[leaf] = found.get(leaf, 0) + held
        return found

    def _atom(self, edge: Edge) -> InAtom | None:
        """Return what a tile is loaded from."""
        if not isinstance(edge, Load):
            return None
        atom = self.measure.derivations.algebra.atoms[edge.atom]
        return atom if isinstance(atom, InAtom) else None


def write_draft(draft: Draft, target: Target, combine: Combine) -> Solution:
    """Write the launches of a draft and return them with their cost, as :func:`launches_of`
    does."""
    problem = draft.analysis.problem
    ops, second = launches_of(draft, target, combine)
    kernels = list(launches(ops))
    hot = set(problem.hot) | {v for launch in kernels[:-1] for v in launch.results}
    hot = frozenset(v for v in hot if v.type.bytes < target.l2_size / 2)
    parts = tuple(
        second.report(launch, hot, target)
        if launch in second.found
        else report(features_of(launch, hot, tables=_read_bytes(problem, launch)), target)
        for launch in kernels
    )
    cost = CostReport.sequence(parts, target)
    return Solution(ops, cost, str(draft.kind), _as_outputs(second.program, draft.analysis.after))


def _as_outputs(program: KernelGraph | None, after: Sequence[Reshape]) -> KernelGraph | None:
    """Return a combine program whose outputs are those of the problem rather than views of them."""
    if program is None:
        return None
    outputs = {view.operands[0]: view.result for view in after}
    ops = (*program.ops, *(view for view in after if view.operands[0] in program.outputs))
    return KernelGraph(
        program.name, program.inputs, ops, tuple(outputs.get(v, v) for v in program.outputs)
    )


def launches_of(
    draft: Draft, target: Target, combine: Combine, *, part: bool = False
) -> tuple[Written, Combination]:
    """Write the launches of a draft, with the views that they need, and return the combine kernel
    among them. A kernel that is a ``part`` of another one is not checked by itself.

    Raises :class:`EmitError` and :class:`mirage.cost.compilable.CheckError` if they exceed a limit
    of the code generator.
    """
    analysis, measure = draft.analysis, draft.measure
    problem, sizes = analysis.problem, _sizes(draft)
    choice = {e.goal: e for e in draft.edges}
    emitter = Emitter(
        measure.derivations, choice, measure.tensors, measure.sizes, sizes,
        half_type(measure.tensors), problem.tf32,
    )  # fmt: skip
    second = Combination()
    if draft.kind.split is None:
        whole: list[tuple[Goal, Value, Dims, str | None]] = [
            (goal, output, dims, None)
            for goal, output, dims in zip(
                draft.targets, problem.outputs, analysis.dims, strict=True
            )
        ]
        first = emitter.launch(whole)
        if part:
            return _with_views(analysis, (first,)), second
        first = _in_best_order(first, target)
    else:
        stores, program, hot = _parts(draft, choice, sizes.grid[draft.kind.split], target)
        first = _in_best_order(emitter.launch(stores), target)
        second = combine(program, hot)
    ops = _with_views(analysis, (first, *second.ops))
    for launch in launches(ops):
        if launch not in (first, *second.found):
            _check(launch, target)
    return ops, second


def _read_bytes(problem: KernelProblem, launch: Launch) -> Iterator[tuple[Value, float]]:
    """Yield the operands of which fewer bytes are read from device memory than they have."""
    yield from problem.tables
    yield from read_from_memory(launch, dict(problem.cuts))


def _parts(
    draft: Draft, choice: dict[Goal, Edge], count: int, target: Target
) -> tuple[list[tuple[Goal, Value, Dims, str | None]], KernelGraph, frozenset[Value]]:
    """Return the partial results that a kernel stores if its blocks sum parts of an axis; the
    combine program; and the inputs of that which L2 holds."""
    problem, measure, dims = draft.analysis.problem, draft.measure, draft.analysis.dims[0]
    wide = DType.F64 if any(t.dtype is DType.F64 for t in measure.tensors) else DType.F32
    above, partials = combine_program(
        measure.derivations, choice, draft.targets[0], measure.tensors, measure.sizes, count,
        problem.outputs[0], dims, wide,
    )  # fmt: skip
    axes = [a for dim in dims for a in dim]
    stores: list[tuple[Goal, Value, Dims, str | None]] = []
    for goal, value in partials.items():
        labels = measure.labels(goal)
        own = tuple((a,) if a in labels else () for a in axes)
        stores.append((goal, value, own, draft.kind.split))
    parts = list(partials.values())
    used = {v for op in above for v in op.operands}
    leaves = tuple(v for v in (*parts, *problem.leaves) if v in used)
    small = sum(v.type.bytes for v in parts) < target.l2_size / 2
    hot = frozenset(parts) if small else frozenset[Value]()
    return stores, KernelGraph("combine", leaves, tuple(above), problem.outputs), hot


def _check(launch: Launch, target: Target) -> None:
    """Raises :class:`mirage.cost.compilable.CheckError` where a launch breaks a limit."""
    split = split_over_cluster(launch)
    launch = launch if split is None else split.launch
    check_launch(launch, target)
    check_registers(launch, target.registers_sm)


def _in_best_order(launch: Launch, target: Target) -> Launch:
    """Return the launch with blocks that continue with the next tile, or that copy tiles for each
    other, if that is faster; its cost is predicted afterwards. The given launch is checked first,
    since one with such blocks needs no fewer resources."""
    _check(launch, target)
    better = with_clusters(with_resident_blocks(launch, target), target)
    if better is not launch:
        _check(better, target)
    return better


def _sizes(draft: Draft) -> Sizes:
    columns, i = draft.measure.columns, draft.column
    tile, steps, grid = (
        {a: int(v[i]) for a, v in of.items()} for of in (columns.tile, columns.steps, columns.grid)
    )
    cluster = int(columns.cluster[i])
    if cluster > 1:  # a launch says what its blocks do together
        for axis in draft.analysis.use.mixed:
            tile[axis], grid[axis] = tile[axis] * grid[axis], 1
    return Sizes(
        tile, steps, grid,
        int(columns.warps[i]), int(columns.stages[i]), bool(columns.warpgroups[i]), cluster,
    )  # fmt: skip


def _with_views(analysis: Analysis, ops: Written) -> Written:
    """Return the launches together with the ops that the problem's views need before and after
    them."""
    return _needed(analysis.before, ops) + ops + analysis.after


def _needed(views: Written, ops: Written) -> Written:
    read = {v for op in ops for v in op.operands}
    needed: list[Launch | Reshape] = []
    for view in reversed(views):
        if not read.isdisjoint(view.results):
            needed.insert(0, view)
            read.update(view.operands)
    return tuple(needed)
