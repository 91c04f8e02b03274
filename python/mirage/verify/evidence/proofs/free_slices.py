"""The slices of inputs that a piece reads, as separate inputs.

If both programs read an input only through slices, each slice may hold anything: two programs that
are equal for all values of the slices are equal for all values of the input. (For overlapping
slices this proves more than is needed.) The indices of the whole input and of its parts, which
often have no common digits, then no longer meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Op, Value

Window = tuple[tuple[int, ...], tuple[int, ...]]
"""Offsets and shape of a slice."""


def with_free_slices(
    first: KernelGraph, second: KernelGraph
) -> tuple[KernelGraph, KernelGraph] | None:
    """Return both programs with the slices of inputs as inputs, or None if there are no such
    slices."""
    graphs = (first, second)
    windows = [
        _windows([_users(graph, graph.inputs[i]) for graph in graphs])
        for i in range(len(first.inputs))
    ]
    if not any(windows):
        return None
    changed = [_with_inputs(graph, windows) for graph in graphs]
    return changed[0], changed[1]


def _users(graph: KernelGraph, value: Value) -> list[Op | None]:
    """Return the ops that read a value; None stands for the caller."""
    users: list[Op | None] = [op for op in graph.ops if value in op.operands]
    return users + [None for v in graph.outputs if v is value]


def _windows(users: Sequence[Sequence[Op | None]]) -> list[Window]:
    """Return the slices that are read of an input, or nothing if it is read in other ways too."""
    found: dict[Window, None] = {}
    for op in (op for some in users for op in some):
        if op is None or op.cut_at is None:
            return []
        found[op.cut_at, op.result.shape] = None
    return list(found)


def _with_inputs(graph: KernelGraph, windows: Sequence[Sequence[Window]]) -> KernelGraph:
    names: dict[Value, Value] = {}
    inputs: list[Value] = []
    gone: set[Op] = set()
    for value, parts in zip(graph.inputs, windows, strict=True):
        if not parts:
            inputs.append(value)
            continue
        own = {part: Value(replace(value.type, shape=part[1]), value.name) for part in parts}
        inputs += own.values()
        for op in graph.ops:
            if op.cut_at is not None and op.operands[0] is value:
                names[op.result] = own[op.cut_at, op.result.shape]
                gone.add(op)
    kept = KernelGraph(
        graph.name,
        tuple(inputs),
        tuple(op for op in graph.ops if op not in gone),
        graph.outputs,
    )
    return rename_graph(kept, names)
