"""Copies that nothing can tell from what is copied."""

from __future__ import annotations

from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Elementwise, External, KernelGraph, Op, Value, View


def without_copies(graph: KernelGraph) -> KernelGraph:
    """``graph`` without casts to the type that their operand has, unless the caller gets the result
    or a view of it: it may write to that, and finds the operand unchanged.
    """
    kept = set(graph.outputs)
    for op in reversed(graph.ops):
        if isinstance(op, View | External) and kept.intersection(op.results):
            kept.update(op.operands)
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(same.get(v, v) for v in op.operands)
        identity = isinstance(op, Elementwise) and op.identity
        if identity and op.result not in kept and operands[0].type == op.result.type:
            same[op.result] = operands[0]
        else:
            ops.append(op if operands == op.operands else with_operands(op, operands))
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)
