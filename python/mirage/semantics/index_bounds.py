"""Which inputs of a program are indices, and of how many rows.

Kernels read nothing for an index that is none of a table's rows, and store nothing; a caller who
wants an error instead compares indices with these bounds before a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirage.semantics.ops.op import Op, Value
from mirage.semantics.positions import Gather, TileGather
from mirage.semantics.row_updates import IndexCopy
from mirage.semantics.ugraph import KernelGraph, Launch, Structure


def index_bounds(graph: KernelGraph) -> tuple[tuple[int, int], ...]:
    """The numbers of inputs that are indices as they are, each with the rows that it may name;
    inputs that something is computed of first have no bounds."""
    numbers = {v: i for i, v in enumerate(graph.inputs)}
    found: set[tuple[int, int]] = set()
    for op in graph.ops:
        if op.renames and op.operands[0] in numbers:
            numbers[op.result] = numbers[op.operands[0]]
        for index, rows in _lookups(op):
            if index in numbers:
                found.add((numbers[index], rows))
    return tuple(sorted(found))


def _lookups(op: Op) -> Iterator[tuple[Value, int]]:
    """The indices that an op of the kernel level reads rows by, and of how many."""
    if isinstance(op, Gather):
        yield op.operands[1], op.operands[0].shape[0]
    elif isinstance(op, IndexCopy):
        yield op.operands[1], op.operands[0].shape[op.dim]
    elif isinstance(op, Launch):
        outside = dict(zip(op.body.params, op.operands, strict=True))
        for gather in _gathers(op.body.ops):
            table, indices = gather.operands
            yield outside[indices], table.shape[0]


def _gathers(ops: Sequence[Op]) -> Iterator[TileGather]:
    for op in ops:
        if isinstance(op, TileGather):
            yield op
        elif isinstance(op, Structure):
            yield from _gathers(op.inside)
