"""The groups of a problem's results that can have tiles in common: each is a problem of its own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.problems.one_tile import one_tile
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.semantics.ugraph import KernelGraph, Op, Value


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
    return [_part(problem, tuple(g), Fraction(most, max(1, g[0].type.size))) for g in groups]


def _part(problem: KernelProblem, outputs: tuple[Value, ...], narrower: Fraction) -> KernelProblem:
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
        rows=frozenset(r for r in problem.rows if r[0] in leaves),
    )  # fmt: skip
