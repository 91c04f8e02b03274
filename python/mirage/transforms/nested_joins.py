"""Concatenations of concatenations, merged into one.

A cache that is joined with new keys, and again with others, is one tensor of three parts. As two
joins it is copied twice, or once if one of them becomes addresses; a join of all parts is an
address in the kernels that read or write each of them, or one copy.
"""

from __future__ import annotations

from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value


def flat_joins(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with joins replaced by their parts where they are joined again along the
    same dimension; the same object if there are none. Joins that the caller gets remain as well."""
    parts: dict[tuple[Value, int], tuple[Value, ...]] = {}
    ops: list[Op] = []
    changed = False
    for op in graph.ops:
        dim = op.joined_along
        if dim is not None:
            flat = tuple(x for v in op.operands for x in parts.get((v, dim), (v,)))
            if all(v.dtype is op.result.dtype for v in flat):  # nothing is converted
                parts[op.result, dim] = flat
            if len(flat) > len(op.operands):
                op = with_operands(op, flat)
                changed = True
        ops.append(op)
    if not changed:
        return graph
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs))
