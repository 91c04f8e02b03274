"""Graphs of kernels for another number of rows, with the same tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import gcd, lcm, prod

from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import (
    Axis,
    KernelGraph,
    Launch,
    Op,
    Output,
    TensorType,
    Value,
    launches,
)

MOST_TIMES = 1024
"""The largest multiple of a graph's number of rows."""


def graph_at(graph: KernelGraph, inputs: Collection[int], most: int, size: int) -> KernelGraph:
    """Return a graph of kernels for the size ``most`` at another size, with the same tiles: blocks
    without rows are left out, and there are more blocks for more rows. ``inputs`` are the numbers
    of the inputs that have rows."""
    rows = {graph.inputs[i] for i in inputs} | set(computed_from(graph, tuple(inputs)))
    names = {v: _value_at(v, most, size) for v in rows}
    for op in launches(graph.ops):
        pairs = zip(op.body.params, op.operands, strict=True)
        names.update({p: _value_at(p, most, size) for p, v in pairs if v in rows})
    changed = rename_graph(graph, names)
    more = size > most
    return having(changed, {op: _launch_at(op, more) for op in launches(changed.ops)})


def size_of_whole_tiles(graph: KernelGraph, inputs: Collection[int], size: int) -> int | None:
    """Return the least multiple of a size at which tiles divide the rows of each launch's results;
    None if there is no larger one, or only a very large one."""
    rows = set(computed_from(graph, inputs))
    times = 1
    for op in launches(graph.ops):
        for result, output in zip(op.results, op.body.outputs, strict=True):
            each = _rows_of_axis(op, output)
            if result in rows and each is not None:
                times = lcm(times, each // gcd(each, result.type.shape[0]))
    return size * times if 1 < times <= MOST_TIMES else None


def computed_from(graph: KernelGraph, inputs: Collection[int]) -> set[Value]:
    """Return some inputs, by their numbers, and all values that are computed from them."""
    found = {graph.inputs[i] for i in inputs}
    for op in graph.ops:
        if any(v in found for v in op.operands):
            found.update(op.results)
    return found


def having(graph: KernelGraph, changed: Mapping[Op, Op]) -> KernelGraph:
    """Return the graph with some ops replaced by others that define the same values."""
    return replace(graph, ops=tuple(changed.get(op, op) for op in graph.ops))


def _value_at(value: Value, most: int, size: int) -> Value:
    if not value.type.shape or value.type.shape[0] % most:
        return value  # the check of rows refuses such graphs
    first, *others = value.type.shape
    return Value(TensorType((first // most * size, *others), value.type.dtype), value.name)


def _launch_at(op: Launch, more: bool) -> Launch:
    """Return a launch with as many blocks along rows as its new results need."""
    parts = dict[str, int]()
    for axis, count in _parts(op):
        parts[axis] = max(parts.get(axis, 1), count)
    grid = tuple(
        Axis(a.name, (max if more else min)(a.extent, parts.get(a.name, a.extent))) for a in op.grid
    )
    return replace(op, grid=grid)


def _parts(op: Launch) -> Iterator[tuple[str, int]]:
    """Yield the axes that cut rows of results, and the number of parts."""
    for result, output in zip(op.results, op.body.outputs, strict=True):
        each = _rows_of_axis(op, output)
        if each is not None:
            yield output.map[0][0], -(-result.type.shape[0] // each)


def _rows_of_axis(op: Launch, output: Output) -> int | None:
    """Return the rows of each part along the outermost axis that cuts the rows of a result; None if
    nothing cuts them."""
    if not output.map or not output.map[0]:
        return None
    extents = {axis.name: axis.extent for axis in op.grid}
    _, *inner = output.map[0]
    return output.value.type.shape[0] * prod(extents[axis] for axis in inner)
