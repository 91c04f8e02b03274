"""Tensors without elements: no kernel computes them, and what is computed from them is known."""

from __future__ import annotations

from mirage.errors import MirageError
from mirage.semantics.ugraph import (
    Broadcast,
    Cast,
    Concat,
    Constant,
    Contraction,
    External,
    KernelGraph,
    Op,
    Structure,
    TensorType,
    Value,
)


class EmptyOperandError(MirageError, ValueError):
    """An op whose value over no elements is not defined."""


def without_empty(graph: KernelGraph) -> KernelGraph:
    """``graph`` without ops that compute or read tensors of no elements, calls of PyTorch and
    launches apart. Sums over nothing become zeros, joins leave out what is empty. Inputs and
    outputs stay, and some of the latter may be defined by nothing: those that are empty.

    Raises :class:`EmptyOperandError` for a maximum of nothing.
    """
    if not any(v.type.size == 0 for op in graph.ops for v in (*op.operands, *op.results)):
        return graph
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, External | Structure):
            ops.append(op)
        elif op.result.type.size:
            ops.extend([op] if all(v.type.size for v in op.operands) else _of_nothing(op))
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)


def _of_nothing(op: Op) -> list[Op]:
    """What computes the same without the empty operands."""
    if isinstance(op, Concat):
        rest = tuple(v for v in op.operands if v.type.size)
        if len(rest) == 1:
            return [Cast(rest, op.results)]
        return [Concat(rest, op.results, op.dim)]
    if isinstance(op, Contraction) and op.sums:
        result = op.result
        if not result.shape:
            return [Constant((), op.results, 0.0)]
        zero = Constant((), (Value(TensorType((), result.dtype)),), 0.0)
        return [zero, Broadcast(zero.results, op.results)]
    raise EmptyOperandError(
        f"expected operands with elements for {type(op).__name__.lower()}, got "
        f"{', '.join(str(v.type) for v in op.operands)}"
    )
