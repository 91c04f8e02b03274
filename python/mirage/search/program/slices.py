"""Slices moved towards the inputs, where they cost nothing.

A block of a result is the result of blocks: columns of ``x @ w`` need only these columns of ``w``.
Where the block of an input lies in one piece in memory it is an address, and nothing is copied;
axis labels can then follow what the slice would have hidden from them. A projection to several
parts that are split afterwards (gate and up, or query, key and value in one weight) becomes as many
projections that read the input once.

Slices of a value move together, and only if less is copied than before and no product grows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from mirage.cost.copies import is_address
from mirage.semantics.region import (
    Region,
    contiguous_start,
    region_shape,
    reshape_groups,
)
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Concat,
    KernelGraph,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Slice,
    TensorType,
    Transpose,
    Unary,
    Value,
)

Block = tuple[tuple[int, ...], tuple[int, ...]]
"""Offsets and sizes."""

MOVABLE = Unary | Binary | Cast | Broadcast | Reduce | Matmul | Transpose | Reshape | Slice | Concat
"""A block of the result of such an op is the op on blocks."""


def with_early_slices(graph: KernelGraph) -> KernelGraph:
    """``graph`` with its slices where the least is copied; the same object where nothing moves."""
    sources = dict.fromkeys(op.operands[0] for op in graph.ops if isinstance(op, Slice))
    for source in sources:
        if source in graph.inputs:
            continue
        moved = _Rewriter(graph, source).run()
        if cut_bytes(moved) < cut_bytes(graph) and _products(moved) <= _products(graph):
            graph = moved
    return graph


def cut_bytes(graph: KernelGraph) -> int:
    """Bytes of joins, and of slices that do not lie in one piece: what axis labels cannot follow,
    copied or not."""
    return sum(
        op.result.type.bytes
        for op in graph.ops
        if op.joined_along is not None
        or (op.cut_at is not None and (op.result in graph.outputs or not is_address(op)))
    )


def _products(graph: KernelGraph) -> int:
    """Multiplications of all products."""
    return sum(
        op.result.type.size * op.operands[0].shape[-1] for op in graph.ops if isinstance(op, Matmul)
    )


class _Rewriter:
    """Moves all slices of ``source`` as far as possible."""

    def __init__(self, graph: KernelGraph, source: Value) -> None:
        self.graph, self.source = graph, source
        self.definitions = {r: op for op in graph.ops for r in op.results}
        self.values: dict[Value, Value] = {v: v for v in graph.inputs}
        self.blocks: dict[tuple[Value, Block], Value] = {}
        self.ops: list[Op] = []

    def run(self) -> KernelGraph:
        for op in self.graph.ops:
            if isinstance(op, Slice) and op.operands[0] is self.source:
                block = (op.offsets, op.result.shape)
                self.values[op.result] = self._block(self.source, block)
            else:
                operands = tuple(self.values[v] for v in op.operands)
                new = op if operands == op.operands else replace(op, operands=operands)
                self.ops.append(new)
                self.values.update(zip(op.results, new.results, strict=True))
        outputs = tuple(self.values[v] for v in self.graph.outputs)
        graph = KernelGraph(self.graph.name, self.graph.inputs, tuple(self.ops), outputs)
        return without_dead_ops(graph)

    def _block(self, value: Value, block: Block) -> Value:
        if block[1] == value.shape:
            return self.values[value]
        key = (value, block)
        if key not in self.blocks:
            op = self.definitions.get(value)
            needed = None if op is None else operand_blocks(op, block)
            result = Value(TensorType(block[1], value.dtype))
            if op is None or needed is None:
                new: Op = Slice((self.values[value],), (result,), block[0])
            elif isinstance(op, Slice | Concat):
                new = Cast((self._only_block(op, needed),), (result,))
                if new.operands[0].dtype is value.dtype:
                    self.blocks[key] = new.operands[0]
                    return new.operands[0]
            else:
                blocks = zip(op.operands, needed, strict=True)
                operands = tuple(self._block(v, b) if b else self.values[v] for v, b in blocks)
                new = replace(op, operands=operands, results=(result,))
            self.ops.append(new)
            self.blocks[key] = result
        return self.blocks[key]

    def _only_block(self, op: Op, needed: list[Block | None]) -> Value:
        """The block of the one operand that is needed."""
        ((value, block),) = [(v, b) for v, b in zip(op.operands, needed, strict=True) if b]
        return self._block(value, block)


def operand_blocks(op: Op, block: Block) -> list[Block | None] | None:
    """The blocks of the operands that a block of the result is made from; None in the list: none of
    it. None where they are no blocks, or the op is one that stays whole.
    """
    if not isinstance(op, MOVABLE):
        return None
    shapes = [v.shape for v in op.operands]
    if isinstance(op, Reshape):
        inner = _reshaped(shapes[0], op.result.shape, block)
        return None if inner is None else [inner]
    cuts = zip(*block, op.result.shape, strict=True)
    region = tuple(None if n == whole else np.arange(o, o + n) for o, n, whole in cuts)
    blocks = [_block(r, s) for r, s in zip(op.needs(region), shapes, strict=True)]
    if isinstance(op, Concat) and sum(b is not None for b in blocks) > 1:
        return None
    return blocks


def _block(region: Region, shape: tuple[int, ...]) -> Block | None:
    """A region of consecutive indices as a block; None for an empty one."""
    if any(r is not None and len(r) == 0 for r in region):
        return None
    offsets = tuple(0 if r is None else int(r[0]) for r in region)
    return offsets, region_shape(region, shape)


def _reshaped(old: tuple[int, ...], new: tuple[int, ...], block: Block) -> Block | None:
    """The block of the operand of a reshape that has the elements of a block of its result."""
    if 0 in (*old, *block[1]):
        return None
    offsets, sizes = [0] * len(old), list(old)
    for group in reshape_groups(old, new):
        whole, part, starts = ([x[j] for j in group.result] for x in (new, block[1], block[0]))
        if part == whole:
            continue
        start = contiguous_start(whole, part, starts)
        if start is None:
            return None
        inner = _of_span([old[i] for i in group.operand], start, prod(part))
        if inner is None:
            return None
        for i, offset, size in zip(group.operand, *inner, strict=True):
            offsets[i], sizes[i] = offset, size
    return tuple(offsets), tuple(sizes)


def _of_span(shape: list[int], start: int, count: int) -> tuple[list[int], list[int]] | None:
    """Offsets and sizes of the block that has ``count`` elements from ``start`` on in one piece;
    None where they are no block.
    """
    offsets, sizes = [0] * len(shape), [1] * len(shape)
    inner, dim = 1, len(shape) - 1  # elements of an index of `dim`
    while dim >= 0 and start % (inner * shape[dim]) == count % (inner * shape[dim]) == 0:
        sizes[dim] = shape[dim]
        inner, dim = inner * shape[dim], dim - 1
    if dim >= 0:
        sizes[dim] = count // inner
        if start % inner or count % inner or start // inner % shape[dim] + sizes[dim] > shape[dim]:
            return None
    for outer in reversed(range(dim + 1)):
        offsets[outer] = start // inner % shape[outer]
        inner *= shape[outer]
    return offsets, sizes
