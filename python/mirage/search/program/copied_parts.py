"""Parts of concatenations that kernels copy to their places.

A slice that a concatenation reads is copied, and then concatenated: each element moves twice. A
kernel that only loads the slice from its place and stores it to its new place moves each element
once.
"""

from __future__ import annotations

from dataclasses import replace

from mirage.cost.copy_kernels import copies_in
from mirage.semantics.ugraph import Cast, Elementwise, KernelGraph, Op, Value


def with_copied_parts(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with the copied slices that concatenations read as separate values, if less
    is copied then; otherwise the same object."""
    copies = copies_in(graph)
    for join in [op for op in graph.ops if op.joined_along is not None and op in copies]:
        changed = _with_parts(graph, join)
        if _moved(changed) < _moved(graph):
            graph = changed
    return graph


def _with_parts(graph: KernelGraph, join: Op) -> KernelGraph:
    """Replace each operand of a concatenation by a separate value."""
    copied: dict[Value, Op] = {}
    for v in join.operands:
        if v.dtype is join.result.dtype:
            copied.setdefault(v, Cast((v,), (Value(v.type),)))
    operands = tuple(copied[v].result if v in copied else v for v in join.operands)
    ops: list[Op] = []
    for op in graph.ops:
        ops += [*copied.values(), replace(op, operands=operands)] if op is join else [op]
    return replace(graph, ops=tuple(ops))


def _moved(graph: KernelGraph) -> int:
    """Return the bytes that are copied, by copy kernels and by values that equal another one."""
    return sum(
        op.result.type.bytes for op in (*copies_in(graph), *(op for op in graph.ops if is_copy(op)))
    )


def is_copy(op: Op) -> bool:
    """Return whether an op returns its operand, in the same type."""
    same = isinstance(op, Elementwise) and op.identity
    return same and op.operands[0].type == op.result.type
