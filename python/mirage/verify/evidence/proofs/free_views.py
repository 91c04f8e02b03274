"""Gives inputs the shape in which they are read.

Where both programs read an input through reshapes only, its own dimensions mean nothing to them:
elements follow each other in the same order in any shape. Cuts of these dimensions, which often fit
no tile of the views, do not meet those of tiles any more once the input has the shape of a view.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirage.semantics.indexing.relations import Regrouped
from mirage.semantics.ops.kinds import Rearrangement
from mirage.semantics.ugraph import KernelGraph, Op, Reshape, TensorType, Value


def with_free_views(
    first: KernelGraph, second: KernelGraph
) -> tuple[KernelGraph, KernelGraph] | None:
    """Return both programs with the views of inputs as inputs, or None if there are no such
    inputs."""
    graphs = (first, second)
    shapes = [_shape([graph.inputs[i] for graph in graphs], graphs) for i in _numbers(first)]
    if all(s is None for s in shapes):
        return None
    one, other = (_with_inputs(graph, shapes) for graph in graphs)
    return one, other


def _numbers(graph: KernelGraph) -> range:
    return range(len(graph.inputs))


def _shape(values: Sequence[Value], graphs: Sequence[KernelGraph]) -> tuple[int, ...] | None:
    """Return the shape with the fewest dimensions in which an input is read, or None if it is read
    only in its own shape."""
    found: dict[tuple[int, ...], None] = {}
    for value, graph in zip(values, graphs, strict=True):
        if value in graph.outputs:
            return None
        for op in graph.ops:
            if value in op.operands:
                if not _keeps_order(op):
                    return None
                found[op.result.shape] = None
    return min(found, key=len, default=None)


def _keeps_order(op: Op) -> bool:
    """Return whether elements follow each other in the result as they do in the operand."""
    relations = op.relations() if isinstance(op, Rearrangement) else None
    return relations is not None and all(isinstance(r, Regrouped) for r in relations)


def _with_inputs(graph: KernelGraph, shapes: Sequence[tuple[int, ...] | None]) -> KernelGraph:
    new: dict[Value, Value] = {}
    inputs: list[Value] = []
    for value, shape in zip(graph.inputs, shapes, strict=True):
        if shape is not None:
            new[value] = Value(TensorType(shape, value.dtype), value.name)
        inputs.append(new.get(value, value))
    ops: list[Op] = []
    for op in graph.ops:
        if not new.keys().isdisjoint(op.operands):  # it is a view, like everything that reads them
            op = Reshape((new[op.operands[0]],), op.results)
        ops.append(op)
    return KernelGraph(graph.name, tuple(inputs), tuple(ops), graph.outputs)
