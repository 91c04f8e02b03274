"""Parts of looked-up rows, where a program cuts what it computes of whole rows.

Experts often have one matrix for two projections, ``gate, up = (x @ weights[expert]).chunk(2)``. A
kernel that multiplies by both parts at once passes on their product with each other, instead of
twice as many elements that its readers have to combine. So each part is looked up by itself: a
table of ``n`` rows that consist of ``k`` equal parts is one of ``n * k`` rows as well, and part
``i`` of row ``r`` is row ``r * k + i`` there. Indices that name no row still name none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from mirage.semantics.blocks import Block, Shape, operand_blocks
from mirage.semantics.builder import Builder
from mirage.semantics.ops.kinds import Contraction
from mirage.semantics.positions import Gather, gather
from mirage.semantics.region import contiguous_start
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, TensorType, Value


def with_row_parts(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with separate lookups of the parts of rows whose products are cut into
    these parts; the same object if there are none."""
    rows = {op.result for op in graph.ops if isinstance(op, Gather) and op.in_tiles}
    if not rows:
        return graph
    for source in dict.fromkeys(op.operands[0] for op in graph.ops if op.cut_at is not None):
        cut = _Cutter(graph, source).run()
        if cut is not None and _multiplications(cut) <= _multiplications(graph):
            graph = cut
    return graph


def _multiplications(graph: KernelGraph) -> int:
    sums = (op for op in graph.ops if isinstance(op, Contraction) and op.sums)
    return sum(
        op.result.type.size * prod(op.operands[0].shape[d] for d in op.over[0]) for op in sums
    )


class _Cutter:
    """Computes the slices of a value from slices of what it is made of, down to lookups."""

    def __init__(self, graph: KernelGraph, source: Value) -> None:
        self.graph, self.source = graph, source
        self.definitions = {v: op for op in graph.ops for v in op.results}
        self.b = Builder()
        self.blocks: dict[tuple[Value, Block], Value | None] = {}
        self.scaled: dict[tuple[Value, int, int], Value] = {}
        self.cut = False  # whether rows are looked up in parts

    def run(self) -> KernelGraph | None:
        """Return the graph with these slices computed from parts of rows; None if the value is
        needed as a whole or if its slices are not made of such parts."""
        graph = self.graph
        readers = [op for op in graph.ops if self.source in op.operands]
        if self.source in graph.outputs or any(op.cut_at is None for op in readers):
            return None
        names: dict[Value, Value] = {}
        for op in graph.ops:
            if op in readers and op.cut_at is not None:
                found = self._block(self.source, (op.cut_at, op.result.shape))
                if found is None:
                    return None
                names[op.result] = found
            else:
                operands = tuple(names.get(v, v) for v in op.operands)
                self.b.ops.append(replace(op, operands=operands) if names else op)
        if not self.cut:
            return None
        outputs = tuple(names.get(v, v) for v in graph.outputs)
        return without_dead_ops(replace(graph, ops=tuple(self.b.ops), outputs=outputs))

    def _block(self, value: Value, block: Block) -> Value | None:
        if block[1] == value.shape:
            return value
        key = value, block
        if key not in self.blocks:
            op = self.definitions.get(value)
            self.blocks[key] = None if op is None else self._of(op, block)
        return self.blocks[key]

    def _of(self, op: Op, block: Block) -> Value | None:
        if isinstance(op, Gather):
            return self._parts(op, block)
        needed = operand_blocks(op, block)
        if needed is None or op.cut_at is not None or op.joined_along is not None:
            return None
        operands = [self._block(v, b) if b else v for v, b in zip(op.operands, needed, strict=True)]
        return self._like(op, block[1], operands)

    def _like(self, op: Op, shape: Shape, operands: Iterable[Value | None]) -> Value | None:
        given = tuple(v for v in operands if v is not None)
        if len(given) < len(op.operands):
            return None
        result = Value(TensorType(shape, op.result.dtype))
        self.b.ops.append(replace(op, operands=given, results=(result,)))
        return result

    def _parts(self, op: Gather, block: Block) -> Value | None:
        """Return the same part of each row that an op looks up, if rows consist of such parts."""
        table, index = op.operands
        rank = len(index.shape)
        offsets, sizes = (tuple(x[rank:]) for x in block)
        row = table.shape[1:]
        start = contiguous_start(row, sizes, offsets)
        size = prod(sizes)
        whole = tuple(block[1][:rank]) == index.shape
        if not op.in_tiles or not whole or start is None or start % size or prod(row) % size:
            return None
        count = prod(row) // size
        parts = self.b.reshape(table, (table.shape[0] * count, *sizes))
        self.cut = True
        return gather(self.b, parts, self._index(op, count, start // size), from_end=op.from_end)

    def _index(self, op: Gather, count: int, number: int) -> Value:
        """Return the index of a part of each row. Other indices become the nearest one that names
        no row, so that their multiples name none either."""
        table, index = op.operands
        least, most = -table.shape[0] - 1 if op.from_end else -1, table.shape[0]
        key = index, least, count
        if key not in self.scaled:
            b = self.b
            limited = b.binary(BinaryFn.MAX, index, b.constant(least, index.dtype))
            limited = b.binary(BinaryFn.MIN, limited, b.constant(most, index.dtype))
            self.scaled[key] = b.binary(BinaryFn.MUL, limited, b.constant(count, index.dtype))
        first = self.scaled[key]
        if not number:
            return first
        return self.b.binary(BinaryFn.ADD, first, self.b.constant(number, index.dtype))
