"""Reshapes between kernels: what one kernel writes through a view and the next one reads through
the same view needs none."""

from __future__ import annotations

from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import KernelGraph, Op, Reshape, Value


def without_round_trips(graph: KernelGraph) -> tuple[KernelGraph, dict[Value, Value]]:
    """``graph`` with every reshape of a reshape taken from the first tensor, and without those that
    give that tensor back or that nothing reads; and of each reshape that tensor."""
    roots: dict[Value, Value] = {}
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(names.get(v, v) for v in op.operands)
        if isinstance(op, Reshape):
            root = roots.get(operands[0], operands[0])
            roots[op.result] = root
            operands = (root,)
            if root.shape == op.result.shape and op.result not in graph.outputs:
                names[op.result] = root
                continue
        ops.append(op if operands == op.operands else with_operands(op, operands))
    read = {*graph.outputs, *(v for op in ops for v in op.operands)}
    kept = tuple(op for op in ops if not isinstance(op, Reshape) or op.result in read)
    return KernelGraph(graph.name, graph.inputs, kept, graph.outputs), roots
