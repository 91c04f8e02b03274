"""Tables reduced to the rows that indices name. A kernel that takes rows of a table of gigabytes
needs few of them, and the indices determine which ones. With these rows as the table, and with the
indices renumbered, the kernel's op has the same results, and the rest of the table need not be
converted to float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import index_of
from mirage.semantics.ugraph import KernelGraph

Array = np.ndarray[Any, Any]


def with_named_rows(
    graph: KernelGraph, arrays: Sequence[Array]
) -> tuple[KernelGraph, tuple[Array, ...]]:
    """Return the graph and the arrays of its inputs with smaller tables, where all readers of a
    table take rows by indices that are inputs."""
    contents = dict(zip(graph.inputs, arrays, strict=True))
    ops = list(graph.ops)
    for table in graph.inputs:
        readers = [n for n, op in enumerate(ops) if table in op.operands]
        if readers and all(_names_rows(ops[n], table, contents) for n in readers):
            gathers = [ops[n] for n in readers]
            for n, op in zip(readers, _smaller(gathers, table, contents), strict=True):
                ops[n] = op
    used = {v for op in ops for v in op.operands}
    kept = tuple(v for v in contents if v in used)
    return replace(graph, inputs=kept, ops=tuple(ops)), tuple(contents[v] for v in kept)


def _names_rows(op: Op, table: Value, contents: dict[Value, Array]) -> bool:
    """Return whether an op does nothing with a table but take rows by known indices."""
    indices = index_of(op)
    return indices is not None and indices in contents and op.operands == (table, indices)


def _smaller(gathers: Sequence[Op], table: Value, contents: dict[Value, Array]) -> list[Op]:
    """Return the ops with the rows that they name as their table; add these rows and the
    renumbered indices to ``contents``. Indices outside of the table stay outside."""
    count = table.shape[0]
    named = np.unique(np.concatenate([contents[op.operands[1]].ravel() for op in gathers]))
    named = named[(named >= 0) & (named < count)]
    if not named.size:
        named = np.zeros(1, np.int64)
    rows = Value(TensorType((len(named), *table.shape[1:]), table.dtype), table.name)
    contents[rows] = np.take(contents[table].reshape(table.shape), named, axis=0)
    found: list[Op] = []
    for op in gathers:
        given = contents[op.operands[1]]
        inside = (given >= 0) & (given < count)
        indices = Value(op.operands[1].type, op.operands[1].name)
        contents[indices] = np.where(inside, np.searchsorted(named, given), -1)
        found.append(replace(op, operands=(rows, indices)))
    return found
