"""Copies of ops with other operands or results (ops are immutable)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import (
    BlockGraph,
    KernelGraph,
    Op,
    Output,
    Structure,
    Value,
    values_in,
)


def with_operands(op: Op, operands: tuple[Value, ...]) -> Op:
    """Return ``op`` with other ``operands`` and the same results."""
    return op if operands == op.operands else replace(op, operands=operands)


def rename_ops(ops: tuple[Op, ...], names: Mapping[Value, Value]) -> tuple[Op, ...]:
    """Replace every value in ``names`` in ``ops``, in uses and definitions, including the bodies of
    loops and launches.
    """

    def new(value: Value) -> Value:
        return names.get(value, value)

    def copy(op: Op) -> Op:
        changed = replace(
            op, operands=tuple(map(new, op.operands)), results=tuple(map(new, op.results))
        )
        if isinstance(changed, Structure):
            return changed.rebuilt(rename_ops(changed.inside, names), new)
        return changed

    return tuple(copy(op) for op in ops)


def rename_block(graph: BlockGraph, names: Mapping[Value, Value]) -> BlockGraph:
    """Replace values in a block graph, as :func:`rename_ops` does."""
    return BlockGraph(
        tuple(names.get(v, v) for v in graph.params),
        rename_ops(graph.ops, names),
        tuple(Output(names.get(o.value, o.value), o.map) for o in graph.outputs),
    )


def rename_graph(graph: KernelGraph, names: Mapping[Value, Value]) -> KernelGraph:
    """Replace values everywhere in ``graph``, including the block graphs of launches."""
    return KernelGraph(
        graph.name,
        tuple(names.get(v, v) for v in graph.inputs),
        rename_ops(graph.ops, names),
        tuple(names.get(v, v) for v in graph.outputs),
    )


def renewed(graph: KernelGraph) -> KernelGraph:
    """Return a copy of ``graph`` that shares no value with it."""
    values = (*graph.inputs, *values_in(graph.ops))
    return rename_graph(graph, {v: Value(v.type, v.name) for v in values})


def without_dead_ops(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without ops that no output needs."""
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if needed.intersection(op.results):
            needed.update(op.operands)
            kept.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(reversed(kept)), graph.outputs)


def rewritten(
    graph: KernelGraph, found: Mapping[Op, Callable[[Builder, Op], Value]]
) -> KernelGraph:
    """Return ``graph`` with some ops replaced, which must have one result each: a function writes
    the replacement of an op whose operands are already rewritten. Return the same object if none is
    replaced."""
    if not found:
        return graph
    build = Builder()
    names: dict[Value, Value] = {}
    for op in graph.ops:
        new = with_operands(op, tuple(names.get(v, v) for v in op.operands))
        if op in found:
            names[op.result] = found[op](build, new)
        else:
            build.ops.append(new)
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return KernelGraph(graph.name, graph.inputs, tuple(build.ops), outputs)
