"""Parts of looked-up rows, if a program cuts the values that it computes from whole rows.

Experts often have one matrix for two projections, ``gate, up = (x @ weights[expert]).chunk(2)``. A
kernel that multiplies by both parts at once passes on their product with each other, instead of
twice as many elements that its readers have to combine. So each part is looked up separately, as
the rows of a part of the table, which is an address in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from mirage.semantics.blocks import Block, Shape, operand_blocks
from mirage.semantics.builder import Builder
from mirage.semantics.indexing.strides import START
from mirage.semantics.ops.kinds import Contraction
from mirage.semantics.positions import Gather, gather
from mirage.semantics.region import contiguous_start
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, TensorType, Value
from mirage.transforms.lookups import gathers_of


def with_row_parts(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with separate lookups of the parts of rows whose products are cut into
    these parts; the same object if there are none."""
    if not gathers_of(graph):
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
    """Computes the slices of a value from slices of its operands, down to lookups."""

    def __init__(self, graph: KernelGraph, source: Value) -> None:
        self.graph, self.source = graph, source
        self.definitions = {v: op for op in graph.ops for v in op.results}
        self.gathers = gathers_of(graph)
        self.b = Builder()
        self.blocks: dict[tuple[Value, Block], Value | None] = {}
        self.cut = False  # whether rows are looked up in parts

    def run(self) -> KernelGraph | None:
        """Return the graph with these slices computed from parts of rows; None if the value is
        needed as a whole or if its slices cannot be computed from such parts."""
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
            self.blocks[key] = self._of(value, block)
        return self.blocks[key]

    def _of(self, value: Value, block: Block) -> Value | None:
        if value in self.gathers:
            return self._parts(self.gathers[value], block)
        op = self.definitions.get(value)
        if op is None:
            return None
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
        """Return the same part of each row that an op looks up, if its elements are consecutive and
        start where kernels can copy them."""
        table, index = op.operands
        rank = len(index.shape)
        offsets, sizes = block[0][rank:], block[1][rank:]
        start = contiguous_start(table.shape[1:], sizes, offsets)
        if not op.in_tiles or block[1][:rank] != index.shape or start is None:
            return None
        row = prod(table.shape[1:])
        if any(n * table.dtype.bytes % START for n in (start, row)):
            return None
        self.cut = True
        part = self.b.slice(table, (0, *offsets), (table.shape[0], *sizes))
        return gather(self.b, part, index, from_end=op.from_end)
