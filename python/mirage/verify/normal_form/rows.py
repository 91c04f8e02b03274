"""Lookups in computed tables, moved before the computation.

The rows of a computed table are computed from rows. So elementwise functions, reductions inside of
rows, and products with operands that all rows share may come before or after the lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.positions import gather
from mirage.semantics.scalar import ReduceFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph


def rows_first(graph: KernelGraph) -> KernelGraph:
    """Rewrite ``graph`` so that it looks rows up before it computes with them, as far as
    possible."""
    made = {v: op for op in graph.ops for v in op.results}
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    for op in graph.ops:
        if isinstance(op, Lookup) and op.names_rows and op.operands[0] in made:
            b = Builder()
            try:
                value = _Rows(made, b, op.operands[1], op.operands[0].shape[0]).of(op.operands[0])
            except ShapeError:
                value = None
            if value is not None and value.type == op.results[0].type:
                ops += b.ops
                names[op.results[0]] = value
                continue
        ops.append(op)
    if not names:
        return graph
    return without_dead_ops(rename_graph(replace(graph, ops=tuple(ops)), names))


class _Rows:
    """The elements at the places ``index`` of values that have ``count`` rows."""

    def __init__(self, made: Mapping[Value, Op], b: Builder, index: Value, count: int) -> None:
        self.made, self.b, self.index, self.count = made, b, index, count
        self.more = len(index.shape) - 1  # dimensions that replace one
        self.known: dict[Value, Value] = {}

    def of(self, table: Value) -> Value:
        """Return the looked-up rows of a table. Raises :class:`ShapeError`."""
        if table not in self.known:
            op = self.made.get(table)
            found = None if op is None else self._computed(op)
            self.known[table] = gather(self.b, table, self.index) if found is None else found
        return self.known[table]

    def _computed(self, op: Op) -> Value | None:
        """Return the rows of an op's result, computed from rows of its operands; None if that is
        not possible."""
        b, first = self.b, op.operands[0] if op.operands else op.results[0]
        if isinstance(op, Elementwise) and op.operands:
            rank = len(op.results[0].shape)
            operands = tuple(self._beside(v, rank) for v in op.operands)
            shape = (*self.index.shape, *op.results[0].shape[1:])
            result = Value(replace(op.results[0].type, shape=shape))
            b.ops.append(replace(op, operands=operands, results=(result,)))
            return result
        if not isinstance(op, Contraction):
            return None
        if isinstance(op.function, ReduceFn) and 0 not in op.over[0]:
            return b.reduce(op.function, self.of(first), tuple(d + self.more for d in op.over[0]))
        if len(op.operands) == 2 and len(op.results[0].shape) == 2:
            return b.matmul(self.of(first), op.operands[1], tf32=op.rounds_factors)
        return None

    def _beside(self, v: Value, rank: int) -> Value:
        """Return an operand of an elementwise function: its rows, or an operand that all rows
        share."""
        if len(v.shape) == rank and v.shape[0] == self.count:
            return self.of(v)
        if len(v.shape) < rank:
            return v
        return self.b.reshape(v, v.shape[1:])
