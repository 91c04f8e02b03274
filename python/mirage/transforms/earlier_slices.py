"""Slices of values that are computed element by element from looked-up rows, taken earlier.

A kernel computes such a value where it reads it, but not a slice of it: the whole value would be
stored first. If everything that the value is computed from is sliced instead, down to the indices,
nothing is stored. A convolution that sees no later places (``conv(x, padding=k - 1)[..., :n]``) is
written like that.

Condition: nothing else reads the values between the lookups and the slice, except indices, which
are cheap to compute again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mirage.semantics.blocks import Block, operand_blocks
from mirage.semantics.builder import Builder
from mirage.semantics.indexing.relations import Same
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, TensorType, Value, View


def with_earlier_slices(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with such slices applied to the indices."""
    slices, names = _Slices(graph), dict[Value, Value]()
    for op in graph.ops:
        new = with_operands(op, tuple(names.get(v, v) for v in op.operands))
        found = slices.earlier(new)
        if found is None:
            slices.add(new)
        else:
            names[op.result] = found
    if not names:
        return graph
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(slices.ops), outputs))


class _Slices:
    """The ops of the rewritten graph."""

    def __init__(self, graph: KernelGraph) -> None:
        self.ops: list[Op] = []
        self._definitions: dict[Value, Op] = {}
        self._readers = Counter(v for op in graph.ops for v in set(op.operands))
        self._readers.update(graph.outputs)

    def add(self, op: Op) -> None:
        """Add an op unchanged."""
        self.ops.append(op)
        self._definitions.update(dict.fromkeys(op.results, op))

    def earlier(self, op: Op) -> Value | None:
        """Add the replacement of such a slice; None for other ops."""
        if op.cut_at is None or not self._looks_up(op.operands[0]):
            return None
        return self._part(op.operands[0], (op.cut_at, op.result.shape), {})

    def _looks_up(self, x: Value) -> bool:
        """Return whether a value is computed from rows that are looked up, and read once."""
        op = self._definitions.get(x)
        if op is None or not self._passes(x, op):
            return False
        return op.names_rows is not None or any(map(self._looks_up, op.operands))

    def _passes(self, x: Value, op: Op) -> bool:
        """Return whether ``op`` computes a part of ``x`` from parts of its operands."""
        if self._readers[x] > 1 and not x.dtype.is_integer:
            return False
        if isinstance(op, Lookup | Elementwise):
            return True
        return isinstance(op, View) and op.cut_at is None and _keeps_dims(op)

    def _part(self, x: Value, block: Block, known: dict[object, Value]) -> Value:
        """Add the ops that compute a part of a value."""
        starts, sizes = block
        if sizes == x.shape:
            return x
        key = x, block
        if key not in known:
            op = self._definitions.get(x)
            blocks = None if op is None or not self._passes(x, op) else _needed(op, block)
            if op is None or blocks is None:
                cut = Builder()
                known[key] = cut.slice(x, starts, sizes)
                self.add(cut.ops[0])
            else:
                pairs = zip(op.operands, blocks, strict=True)
                operands = tuple([self._part(v, b, known) if b else v for v, b in pairs])
                known[key] = Value(TensorType(sizes, x.dtype), x.name)
                self.add(replace(op, operands=operands, results=(known[key],)))
        return known[key]


def _keeps_dims(op: View) -> bool:
    relations = op.relations()
    return relations is not None and all(isinstance(r, Same) for r in relations)


def _needed(op: Op, block: Block) -> Sequence[Block | None] | None:
    """Return the blocks of the operands that a block of the result needs; None if these are not
    blocks."""
    starts, sizes = block
    if isinstance(op, Lookup) and op.counts_along is not None:
        return None if starts[op.counts_along] else []
    if op.names_rows is None:
        return operand_blocks(op, block)
    table, index = op.operands
    rank = len(index.shape)
    rows = (0, *starts[rank:]), (table.shape[0], *sizes[rank:])
    return [rows, (starts[:rank], sizes[:rank])]
