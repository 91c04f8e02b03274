"""Results that no derivation has in common, computed by one kernel: each group of them is derived
by itself, and the launches of the groups are joined.

A product of 4096 columns and one of 1024 with the same left factor are one kernel if as many blocks
compute tiles of either. So the choices of sizes with the same numbers of blocks and steps, warps
and stages are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.registers import check_registers
from mirage.cost.target import Target
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.derivations.moves import Edge, EmitError, Product
from mirage.search.kernel.emission.joined_launches import joined
from mirage.search.kernel.emission.launches import Combine, Draft, write_draft
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.one_tile import one_tile
from mirage.search.kernel.problems.problem import KernelProblem, Solution
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Op,
    Reshape,
    TensorType,
    Value,
    launches,
)

WAYS = 16
"""The ways to compute a group that are asked for: derivations at one or two choices of sizes."""
DERIVED = 2
"""The derivations of a group that are considered, of each kind."""
SIZES = 512
"""The choices of sizes of each that are considered, the fastest first."""
COMBINED, WRITTEN = 3, 8
"""The combinations of derivations of each kind that are written, and the common sizes at which each
is written, the fastest first: the kernels' costs decide. The sum of times by which sizes are
ordered counts for each group what the joined kernel does once (loads of common factors, steps of
the loop), so the best of some 200 sizes is often not among the first three."""

Sizes = tuple[object, ...]
"""The numbers that the launches of all groups have in common."""
Array = np.ndarray[Any, Any]
Times = Callable[[Draft], Array]
"""A function that returns the predicted µs of a draft at each choice of sizes."""


def groups_of(problem: KernelProblem) -> list[KernelProblem]:
    """Return the problems whose results have tiles in common; the problem itself if all have."""
    groups: list[list[Value]] = []
    for output in problem.outputs:
        for group in groups:
            if one_tile(group[0].type, output.type):
                group.append(output)
                break
        else:
            groups.append([output])
    if len(groups) == 1:
        return [problem]
    most = max(group[0].type.size for group in groups)
    return [_part(problem, tuple(g), most // max(1, g[0].type.size)) for g in groups]


def _part(problem: KernelProblem, outputs: tuple[Value, ...], narrower: int) -> KernelProblem:
    """Return the problem of computing some of the outputs."""
    needed = {*outputs}
    ops: list[Op] = []
    for op in reversed(list(dict.fromkeys(problem.definitions.values()))):
        if not needed.isdisjoint(op.results):
            needed.update(op.operands)
            ops.append(op)
    kept = [i for i, v in enumerate(problem.leaves) if v in needed]
    leaves = tuple(problem.leaves[i] for i in kept)
    graph = KernelGraph("part", leaves, tuple(reversed(ops)), outputs)
    scales = problem.scales
    if scales is not None:
        scales = replace(scales, leaves=tuple(scales.leaves[i] for i in kept))
    return replace(
        problem, outputs=outputs, leaves=leaves,
        definitions={r: op for op in graph.ops for r in op.results},
        table=AxisTable.of(graph, together=True), hot=problem.hot.intersection(leaves),
        scales=scales, narrower=narrower,
        tables=frozenset(t for t in problem.tables if t[0] in leaves),
    )  # fmt: skip


@dataclass(frozen=True)
class _Estimate:
    """The predicted µs of a draft, and the bytes of shared memory for tiles of each leaf."""

    time: float
    draft: Draft
    held: Mapping[Value, int]


def _bytes_together(estimates: Sequence[_Estimate]) -> int:
    """Return the bytes of shared memory for the tiles of one kernel, which loads a leaf that
    several groups read once."""
    leaves = {leaf for e in estimates for leaf in e.held}
    return sum(max(e.held.get(leaf, 0) for e in estimates) for leaf in leaves)


@dataclass(frozen=True)
class JointKernels:
    """Joins the kernels of groups. ``times`` estimates drafts, and ``combine`` finds the kernels
    that they may need."""

    target: Target
    times: Times
    combine: Combine

    def picks(self, groups: Sequence[Sequence[Pick]]) -> list[Pick]:
        """Return kernels that compute all groups, given the ways to compute each, the cheapest
        first."""
        kinds = [_by_kind(picks) for picks in groups]
        written: dict[Draft, Solution | None] = {}
        found: list[Solution] = []
        for kind in kinds[0]:
            if all(kind in group for group in kinds):
                for drafts in self._fastest([group[kind] for group in kinds]):
                    solution = self._written(drafts, written)
                    found += [] if solution is None else [solution]
        found.sort(key=lambda s: s.cost.time)
        return [Pick(s.cost.time, None, s, number=i) for i, s in enumerate(found)]

    def _fastest(self, groups: Sequence[Sequence[Draft]]) -> Iterator[list[Draft]]:
        """Yield a draft of each group, all with common sizes, for the combinations that are
        estimated to be the fastest."""
        best: list[tuple[float, list[list[Draft]]]] = []
        for drafts in product(*([self._at_sizes(d) for d in group] for group in groups)):
            common = set(drafts[0]).intersection(*drafts[1:])
            sums = sorted(
                (sum(d[key].time for d in drafts), str(key), key)
                for key in common
                if _bytes_together([d[key] for d in drafts]) <= self.target.shared_block
            )
            if sums:
                first = [[d[key].draft for d in drafts] for *_, key in sums[:WRITTEN]]
                best.append((sums[0][0], first))
        for _, several in sorted(best, key=lambda b: b[0])[:COMBINED]:
            yield from several

    def _at_sizes(self, draft: Draft) -> dict[Sizes, _Estimate]:
        """Return a derivation at its fastest choice of sizes for each choice of common sizes."""
        times = self.times(draft)
        tiles = draft.tiles()
        found: dict[Sizes, _Estimate] = {}
        for column in np.argsort(times, kind="stable")[:SIZES].tolist():
            key = _common_sizes(draft, column)
            if key is not None and key not in found and math.isfinite(times[column]):
                held = {leaf: int(size[column]) for leaf, size in tiles.items()}
                found[key] = _Estimate(float(times[column]), replace(draft, column=column), held)
        return found

    def _written(
        self, drafts: Sequence[Draft], written: dict[Draft, Solution | None]
    ) -> Solution | None:
        """Return the kernel of a draft for each group; None if it exceeds a limit of the code
        generator, or if their launches cannot be joined. ``written`` has those of single groups."""
        solutions: list[Solution] = []
        for draft in drafts:
            if draft not in written:
                written[draft] = self._alone(draft)
            solution = written[draft]
            if solution is None:
                return None
            solutions.append(solution)
        ops = _joined(solutions)
        if ops is None:
            return None
        (kernel,) = launches(ops)
        try:
            check_launch(kernel, self.target)
            check_registers(kernel, self.target.registers_sm)
        except CheckError:
            return None
        problems = [d.analysis.problem for d in drafts]
        hot = frozenset(v for p in problems for v in p.hot)
        tables = {t for p in problems for t in p.tables}
        cost = report(features_of(kernel, hot, tables=tables), self.target)
        return Solution(ops, cost, " beside ".join(s.description for s in solutions))

    def _alone(self, draft: Draft) -> Solution | None:
        """Return the kernel of one group; None if it exceeds a limit."""
        try:
            return write_draft(draft, self.target, self.combine)
        except (EmitError, CheckError):
            return None


def _joined(solutions: Sequence[Solution]) -> tuple[Launch | Reshape, ...] | None:
    """Return the kernels of several solutions as one, with the views before and after them; None if
    one of them has several, or if they cannot be joined."""
    before: dict[tuple[tuple[Value, ...], TensorType], Reshape] = {}
    after: list[Launch | Reshape] = []
    kernel: Launch | None = None
    for solution in solutions:
        own, *more = launches(solution.ops)
        place = solution.ops.index(own)
        same: dict[Value, Value] = {}
        for view in solution.ops[:place]:
            operands = tuple(same.get(v, v) for v in view.operands)
            (result,) = view.results
            new = Reshape(operands, view.results)
            same[result] = before.setdefault((operands, result.type), new).result
        own = replace(own, operands=tuple(same.get(v, v) for v in own.operands))
        kernel = own if kernel is None else joined(kernel, own)
        if kernel is None or more:
            return None
        after += solution.ops[place + 1 :]
    assert kernel is not None
    return (*before.values(), kernel, *after)


def _by_kind(picks: Sequence[Pick]) -> dict[object, list[Draft]]:
    """Return the first derivations that are one kernel without nested loops, by the kinds of their
    moves: those that multiply on tensor cores may round factors, and others may not."""
    found: dict[object, dict[frozenset[Edge], Draft]] = {}
    for draft in (p.draft for p in picks if p.draft is not None):
        kind = draft.kind
        if kind.split is None and kind.inner is None:
            multiplies = any(isinstance(e, Product) for e in draft.edges)
            moves = kind.loop is not None, kind.passes, multiplies
            found.setdefault(moves, {}).setdefault(frozenset(draft.edges), draft)
    return {moves: list(drafts.values())[:DERIVED] for moves, drafts in found.items()}


def _common_sizes(draft: Draft, column: int) -> Sizes | None:
    """Return the numbers that launches must have in common; None if warpgroups multiply."""
    columns = draft.measure.columns
    if columns.warpgroups[column]:
        return None
    axes = dict.fromkeys((*(a for dim in draft.analysis.dims[0] for a in dim), *columns.grid))
    extents = (int(columns.grid[a][column]) for a in axes if a in columns.grid)
    loop = draft.kind.loop
    return (
        tuple(n for n in extents if n > 1),
        None if loop is None else int(columns.steps[loop][column]),
        int(columns.warps[column]),
        int(columns.stages[column]),
    )
