"""Tensors without elements: no kernel computes them, and the results of ops on them are known."""

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
    """The value of an op over no elements is not defined."""


def without_empty(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without ops that compute or read tensors without elements, except for calls
    of PyTorch and launches. Sums over nothing become zeros, and joins drop empty operands. Inputs
    and outputs stay; empty outputs may have no definition.

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
    """Return ops that compute the same without the empty operands."""
    if op.joined_along is not None:
        rest = tuple(v for v in op.operands if v.type.size)
        if len(rest) == 1:
            return [Cast(rest, op.results)]
        return [Concat(rest, op.results, op.joined_along)]
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
