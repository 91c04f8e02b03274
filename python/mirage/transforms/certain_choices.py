"""Choices whose outcome is known from the ranges of integers, such as those of positions."""

from __future__ import annotations

from collections.abc import Mapping

from mirage.semantics.bounds.integer_ranges import Range, ranges_of
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value


def without_certain_choices(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with what is always chosen in place of the choice."""
    ranges = ranges_of(graph)
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        chosen = _chosen(op, ranges)
        if chosen is None or chosen.type != op.result.type:
            ops.append(with_operands(op, tuple(names.get(v, v) for v in op.operands)))
        else:
            names[op.result] = names.get(chosen, chosen)
    if not names:
        return graph
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), outputs))


def _chosen(op: Op, ranges: Mapping[Value, Range]) -> Value | None:
    """Return the operand that an op always returns, or None."""
    if op.function not in (BinaryFn.KEEP, BinaryFn.MAX, BinaryFn.MIN):
        return None
    a, b = op.operands
    if op.function is BinaryFn.KEEP:
        return b if ranges.get(a) == (1, 1) else None
    if not (a.dtype.is_integer and b.dtype.is_integer) or a not in ranges or b not in ranges:
        return None
    small, large = (a, b) if op.function is BinaryFn.MIN else (b, a)
    if ranges[small][1] <= ranges[large][0]:
        return small if op.function is BinaryFn.MIN else large
    return None
