"""Copies of ops with other operands or results (ops are immutable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from mirage.semantics.ugraph import (
    Accumulator,
    BlockGraph,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Output,
    Value,
    walk,
)


def with_operands(op: Op, operands: tuple[Value, ...]) -> Op:
    """``op`` reading ``operands`` and defining the same results."""
    assert "operands" in {f.name for f in fields(op)}
    return replace(op, operands=operands)


def rename_ops(ops: tuple[Op, ...], names: Mapping[Value, Value]) -> tuple[Op, ...]:
    """``ops`` with every value in ``names`` replaced, where it is used and where it is defined,
    loop bodies included.

    The params and bodies of launches stay as they are.
    """

    def new(value: Value) -> Value:
        return names.get(value, value)

    def copy(op: Op) -> Op:
        changed = replace(
            op, operands=tuple(map(new, op.operands)), results=tuple(map(new, op.results))
        )
        if isinstance(changed, Loop):
            accumulators = tuple(
                Accumulator(a.fn, new(a.value), None if a.rescale is None else new(a.rescale))
                for a in changed.accumulators
            )
            return replace(changed, body=rename_ops(changed.body, names), accumulators=accumulators)
        return changed

    return tuple(copy(op) for op in ops)


def rename_block(graph: BlockGraph, names: Mapping[Value, Value]) -> BlockGraph:
    """``graph`` with values replaced as in :func:`rename_ops`."""

    def new(value: Value) -> Value:
        return names.get(value, value)

    return BlockGraph(
        tuple(map(new, graph.params)),
        rename_ops(graph.ops, names),
        tuple(Output(new(o.value), o.map) for o in graph.outputs),
    )


def rename_graph(graph: KernelGraph, names: Mapping[Value, Value]) -> KernelGraph:
    """``graph`` with values replaced everywhere, the block graphs of launches included."""

    def copy(op: Op) -> Op:
        (renamed,) = rename_ops((op,), names)
        return (
            replace(renamed, body=rename_block(renamed.body, names))
            if isinstance(renamed, Launch)
            else renamed
        )

    return KernelGraph(
        graph.name,
        tuple(names.get(v, v) for v in graph.inputs),
        tuple(copy(op) for op in graph.ops),
        tuple(names.get(v, v) for v in graph.outputs),
    )


def renewed(graph: KernelGraph) -> KernelGraph:
    """A copy of ``graph`` that shares no value with it."""
    values = list(graph.inputs)
    for op in graph.ops:
        values += op.results
        if isinstance(op, Launch):
            values += op.body.params
            values += (v for inner in walk(op.body.ops) for v in inner.results)
    return rename_graph(graph, {v: Value(v.type, v.name) for v in values})


def without_dead_ops(graph: KernelGraph) -> KernelGraph:
    """``graph`` without ops that no output needs."""
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if needed.intersection(op.results):
            needed.update(op.operands)
            kept.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(reversed(kept)), graph.outputs)
