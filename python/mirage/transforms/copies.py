"""Removal of copies that cannot be distinguished from their originals, and of repeated
computations; also the insertion of copies where results would otherwise be the originals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields

from mirage.semantics.indexing.strides import Strides, dense, reshaped
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import (
    Boundary,
    Cast,
    Elementwise,
    External,
    KernelGraph,
    Op,
    Structure,
    Transpose,
    Value,
    View,
)


def without_copies(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without casts to the type that their operand already has, unless the caller
    gets the result or a view of it: the caller may write to that and must find the operand
    unchanged.
    """
    kept = handed_out(graph)
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(same.get(v, v) for v in op.operands)
        identity = isinstance(op, Elementwise) and op.identity
        if identity and op.result not in kept and operands[0].type == op.result.type:
            same[op.result] = operands[0]
        else:
            ops.append(with_operands(op, operands))
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)


def without_repeats(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without ops that repeat an earlier op on equal operands, unless the caller
    gets the result or a view of it. Layers compute the same mask and the same angles independently.
    """
    kept = handed_out(graph)
    same: dict[Value, Value] = {}
    first: dict[object, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(same.get(v, v) for v in op.operands)
        if len(op.results) == 1 and not isinstance(op, Structure | Boundary):
            found = first.setdefault(_what(op, operands), op.result)
            if found is not op.result and op.result not in kept:
                same[op.result] = found
                continue
        ops.append(with_operands(op, operands))
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)


def with_own_memory(graph: KernelGraph, memories: Mapping[int, Hashable]) -> KernelGraph:
    """Return ``graph`` with copies for outputs that must not be views of inputs or of each other.
    ``memories`` names the memory of outputs, by number: two outputs may share it if it has the same
    name, and none of them may be an input's. Other outputs do not change, and nothing else may
    share their memory.
    """
    made = {v: op for op in graph.ops for v in op.results}

    def root(value: Value) -> Value:
        while isinstance(op := made.get(value), View) and not is_copied(op, made):
            value = op.operands[0]
        return value

    roots = [root(v) for v in graph.outputs]
    others = {r for i, r in enumerate(roots) if i not in memories}
    owners: dict[Value, Hashable] = {}
    outputs = list(graph.outputs)
    copies: list[Op] = []
    for i, name in memories.items():
        taken = roots[i] in graph.inputs or roots[i] in others
        if taken or owners.setdefault(roots[i], name) != name:
            source = outputs[i]
            outputs[i] = Value(source.type)
            copies.append(Cast((source,), (outputs[i],)))
    if not copies:
        return graph
    return KernelGraph(graph.name, graph.inputs, (*graph.ops, *copies), tuple(outputs))


def is_copied(op: Op, made: Mapping[Value, Op]) -> bool:
    """Return whether a view requires a copy, because no strides reach its elements in another
    shape."""
    if not op.renames or 0 in op.result.shape:
        return False
    (x,) = op.operands
    return reshaped(x.shape, _strides(x, made), op.result.shape) is None


def _strides(value: Value, made: Mapping[Value, Op]) -> Strides:
    """Return the strides in PyTorch of a value that may be a view of others."""
    op = made.get(value)
    if isinstance(op, Transpose):
        inner = _strides(op.operands[0], made)
        return tuple(inner[d] for d in op.permutation)
    if op is not None and op.cut_at is not None:
        return _strides(op.operands[0], made)
    if op is not None and op.renames:
        (x,) = op.operands
        return reshaped(x.shape, _strides(x, made), value.shape) or dense(value.shape)
    return dense(value.shape)


def handed_out(graph: KernelGraph) -> set[Value]:
    """Return the values that the caller gets, and those of which these may be views: the caller may
    write to them."""
    found = set(graph.outputs)
    for op in reversed(graph.ops):
        if isinstance(op, View | External) and found.intersection(op.results):
            found.update(op.operands)
    return found


def _what(op: Op, operands: tuple[Value, ...]) -> object:
    """Return a key that is equal for ops that compute the same."""
    others = (f.name for f in fields(op) if f.name not in ("operands", "results"))
    said = tuple((name, repr(getattr(op, name))) for name in others)
    return type(op), operands, op.result.type, said
