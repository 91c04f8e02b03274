"""From a derivation at one choice of sizes to launches: the kernel, its combine kernel, and the
views that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mirage.cost.compilable import check_launch
from mirage.cost.cost_report import CostReport
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.registers import check_registers
from mirage.cost.resident import with_resident_blocks
from mirage.cost.target import Target
from mirage.search.algebra.axes import AxisTable, Dims
from mirage.search.kernel.combine import combine_program
from mirage.search.kernel.derivation_costs import Measure, half_type
from mirage.search.kernel.emit import Emitter, Sizes
from mirage.search.kernel.frames import FrameType
from mirage.search.kernel.moves import Edge, EmitError, Goal
from mirage.search.kernel.problem import KernelProblem, Solution
from mirage.search.kernel.problem_axes import Analysis
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Launch, Op, Reshape, Value, launches

Combine = Callable[[KernelProblem], tuple[Launch | Reshape, ...] | None]
"""Solves the problem of a combine kernel."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A derivation at one choice of sizes, before it is written down."""

    analysis: Analysis
    measure: Measure
    targets: tuple[Goal, ...]
    edges: list[Edge]
    column: int
    kind: FrameType


def write_draft(draft: Draft, target: Target, combine: Combine) -> Solution:
    """The launches of a draft and what they cost.

    Raises :class:`EmitError` and :class:`mirage.cost.compilable.CheckError` where they break a
    limit of the code generator.
    """
    analysis, measure = draft.analysis, draft.measure
    problem, sizes, split = analysis.problem, _sizes(draft), draft.kind.split
    choice = {e.goal: e for e in draft.edges}
    tensors = measure.tensors
    emitter = Emitter(
        measure.derivations, choice, tensors, measure.sizes, sizes, half_type(tensors)
    )
    ops: tuple[Launch | Reshape, ...]
    if split is None:
        whole: list[tuple[Goal, Value, Dims, str | None]] = [
            (goal, output, dims, None)
            for goal, output, dims in zip(
                draft.targets, problem.outputs, analysis.dims, strict=True
            )
        ]
        ops = (with_resident_blocks(emitter.launch(whole), target),)
    else:
        dims = analysis.dims[0]
        wide = DType.F64 if any(t.dtype is DType.F64 for t in tensors) else DType.F32
        above, partials = combine_program(
            measure.derivations, choice, draft.targets[0], tensors, measure.sizes,
            sizes.grid[split], problem.outputs[0], dims, wide,
        )  # fmt: skip
        axes = [a for dim in dims for a in dim]
        stores: list[tuple[Goal, Value, Dims, str | None]] = []
        for goal, value in partials.items():
            labels = measure.labels(goal)
            stores.append((goal, value, tuple((a,) if a in labels else () for a in axes), split))
        first = with_resident_blocks(emitter.launch(stores), target)
        second = combine(_combine_problem(problem, above, list(partials.values()), target))
        if second is None:
            raise EmitError("expected a combine kernel, found none")
        ops = (first, *second)
    ops = _needed(analysis.before, ops) + ops + analysis.after
    kernels = list(launches(ops))
    for launch in kernels:
        check_launch(launch, target)
        check_registers(launch, target.registers_sm)
    hot = set(problem.hot) | {v for launch in kernels[:-1] for v in launch.results}
    hot = {v for v in hot if v.type.bytes < target.l2_size / 2}
    parts = tuple(report(features_of(launch, hot), target) for launch in kernels)
    return Solution(ops, CostReport.sequence(parts, target), str(draft.kind))


def time_before(analysis: Analysis, target: Target) -> float:
    """Predicted µs of the kernels that prepare the tensors which the problem reads."""
    kernels = launches(analysis.before)
    return sum(report(features_of(op), target).time + target.combine for op in kernels)


def _sizes(draft: Draft) -> Sizes:
    columns, i = draft.measure.columns, draft.column
    return Sizes(
        {a: int(v[i]) for a, v in columns.tile.items()},
        {a: int(v[i]) for a, v in columns.steps.items()},
        {a: int(v[i]) for a, v in columns.grid.items()},
        int(columns.warps[i]),
        int(columns.stages[i]),
        bool(columns.warpgroups[i]),
    )


def _needed(
    views: tuple[Launch | Reshape, ...], ops: tuple[Launch | Reshape, ...]
) -> tuple[Launch | Reshape, ...]:
    read = {v for op in ops for v in op.operands}
    needed: list[Launch | Reshape] = []
    for view in reversed(views):
        if not read.isdisjoint(view.results):
            needed.insert(0, view)
            read.update(view.operands)
    return tuple(needed)


def _combine_problem(
    problem: KernelProblem, ops: list[Op], partials: list[Value], target: Target
) -> KernelProblem:
    used = {v for op in ops for v in op.operands}
    leaves = tuple(v for v in (*partials, *problem.leaves) if v in used)
    graph = KernelGraph("combine", leaves, tuple(ops), problem.outputs)
    definitions = {r: op for op in ops for r in op.results}
    small = sum(v.type.bytes for v in partials) < target.l2_size / 2
    hot = frozenset(partials) if small else frozenset[Value]()
    table = AxisTable.of(graph)
    return KernelProblem(problem.outputs, leaves, definitions, table, combine=True, hot=hot)
