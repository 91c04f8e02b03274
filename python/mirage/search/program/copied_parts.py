"""Parts of joins that kernels copy to their places.

A slice that a join reads is copied, and then joined: each element moves twice. A kernel that does
nothing but load the slice where it lies and store it where it belongs moves each element once.
"""

from __future__ import annotations

from dataclasses import replace

from mirage.cost.copy_kernels import copies_in
from mirage.semantics.ugraph import Cast, Elementwise, KernelGraph, Op, Value


def with_copied_parts(graph: KernelGraph) -> KernelGraph:
    """``graph`` with what joins read of copied slices as values of their own, where less is copied
    then; the same object where that is nowhere so."""
    copies = copies_in(graph)
    for join in [op for op in graph.ops if op.joined_along is not None and op in copies]:
        changed = _with_parts(graph, join)
        if _moved(changed) < _moved(graph):
            graph = changed
    return graph


def _with_parts(graph: KernelGraph, join: Op) -> KernelGraph:
    """With each operand of a join as a value that is computed for it."""
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
    """Bytes that are copied, by kernels of copies alone and by values that are the same as another
    one."""
    return sum(
        op.result.type.bytes for op in (*copies_in(graph), *(op for op in graph.ops if is_copy(op)))
    )


def is_copy(op: Op) -> bool:
    """Whether an op gives its operand, in the same type."""
    same = isinstance(op, Elementwise) and op.identity
    return same and op.operands[0].type == op.result.type
