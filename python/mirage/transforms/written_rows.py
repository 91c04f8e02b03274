"""Rows by index that something other than a kernel reads, written by a separate kernel.

A launch that loads rows by index looks them up (:mod:`mirage.transforms.lookups`). For all other
readers (the program's caller, calls of PyTorch, other lookups) a kernel copies the rows: tile by
tile if they are long, otherwise element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.copy_launch import copied
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.picked_elements import Index, picked_elements
from mirage.semantics.positions import Gather, gather
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Reshape, launches

VECTOR = 16
"""The bytes that a thread copies at once: shorter rows are copied element by element."""


def gathers_of(graph: KernelGraph) -> dict[Value, Gather]:
    """Return the rows of tables that a graph looks up, by their results."""
    return {op.result: op for op in graph.ops if isinstance(op, Gather)}


def with_written_rows(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with kernels that write the rows that something other than a kernel reads,
    and formulas of rows that no tile holds. Floats of 8 bits stay lookups."""
    gathers = gathers_of(graph)
    kernels = set(launches(graph.ops))
    read = set(graph.outputs).union(*(op.operands for op in graph.ops if op not in kernels))
    written = {v: op for v, op in gathers.items() if not op.in_tiles or v in read}
    written = {v: op for v, op in written.items() if not v.dtype.is_eight_bits}
    if not written:
        return graph
    loaded = {v: Value(v.type) for v, op in written.items() if op.in_tiles}
    ops: list[Op] = []
    for op in graph.ops:
        if op in kernels:
            op = with_operands(op, tuple(loaded.get(v, v) for v in op.operands))
        first = op.results[0]
        if first in loaded:
            op = replace(op, results=(loaded[first],))
        if first not in written or first in loaded:
            ops.append(op)
        if first in written:
            ops.extend(_written(written[first]))
    return without_dead_ops(replace(graph, ops=tuple(ops)))


def _written(op: Gather) -> Sequence[Op]:
    """Return the ops that write the rows of a lookup."""
    table, index = op.operands
    row = prod(table.shape[1:])
    if not op.in_tiles or row * table.dtype.bytes < VECTOR:
        return (_elements(op),)
    shape = (index.type.size, row)
    b = Builder()
    if op.result.shape != shape:
        table, index = b.reshape(table, (table.shape[0], row)), b.reshape(index, shape[:1])
    found = gather(b, table, index, from_end=op.from_end)
    if op.result.shape == shape:
        return (*b.ops, copied(found, op.result))
    rows = Value(found.type)
    return (*b.ops, copied(found, rows), Reshape((rows,), op.results))


def _elements(op: Gather) -> Op:
    """Return the formula of the rows' elements."""
    table, index = op.operands
    rank = len(index.shape)
    own = (Index((d,)) for d in range(rank, len(op.result.shape)))
    named = Index(tuple(range(rank)), index, from_end=op.from_end)
    b = Builder()
    picked_elements(b, table, (named, *own), op.result.shape)
    return replace(b.ops[-1], results=op.results)
