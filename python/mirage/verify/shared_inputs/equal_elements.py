"""Held tensors that are one number everywhere, or the negation of another tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import Array, DType, UnaryFn
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Op, Value


def is_uniform(x: Array) -> bool:
    """Return whether all elements are the same number."""
    return bool(x.size and np.isfinite(x.flat[0]) and (x == x.flat[0]).all())


def filled(graph: KernelGraph, uniform: Mapping[int, Array]) -> KernelGraph:
    """Return the graph with a constant in place of each tensor whose elements are all equal."""
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    read_here = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    for i, x in uniform.items():
        v = graph.inputs[i]
        if v not in read_here:
            continue
        b = Builder()
        number = b.constant(Fraction(float(x.flat[0])), v.dtype)  # its value, not its spelling
        names[v] = b.broadcast(number, v.shape) if v.shape else number
        ops.extend(b.ops)
    return _with_values(graph, names, ops)


def opposites_of(
    inputs: Sequence[Value], foreign: Mapping[int, Array], contents: Mapping[int, Array]
) -> dict[int, int]:
    """Return, for truth values that one program holds (a mask), the tensor of the other program
    that is their negation."""
    found: dict[int, int] = {}
    for i, x in foreign.items():
        for j, y in contents.items():
            same = i != j and inputs[i].type == inputs[j].type and inputs[i].dtype is DType.I1
            if same and j not in found and bool(((x != 0) != (y != 0)).all()):
                found[i] = j
                break
    return found


def with_opposites(graph: KernelGraph, opposite: Mapping[int, int]) -> KernelGraph:
    """Return the graph with the negation of the other tensor in place of each such tensor."""
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    read_here = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    for i, j in opposite.items():
        if graph.inputs[i] in read_here:
            b = Builder()
            names[graph.inputs[i]] = b.unary(UnaryFn.NOT, graph.inputs[j])
            ops.extend(b.ops)
    return _with_values(graph, names, ops)


def _with_values(
    graph: KernelGraph, names: Mapping[Value, Value], ops: Sequence[Op]
) -> KernelGraph:
    """Return the graph with the results of ``ops``, which come first, in place of inputs."""
    if not names:
        return graph
    renamed = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    return KernelGraph(graph.name, graph.inputs, (*ops, *renamed.ops), renamed.outputs)
