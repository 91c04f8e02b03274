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

from mirage.cost.copies import copied_bytes
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


def with_early_slices(graph: KernelGraph) -> KernelGraph:
    """``graph`` with its slices where the least is copied; the same object where nothing moves."""
    sources = dict.fromkeys(op.operands[0] for op in graph.ops if isinstance(op, Slice))
    for source in sources:
        if source in graph.inputs:
            continue
        moved = _Rewriter(graph, source).run()
        if copied_bytes(moved) < copied_bytes(graph) and _products(moved) <= _products(graph):
            graph = moved
    return graph


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
    offsets, sizes = block
    shapes = [v.shape for v in op.operands]
    match op:
        case Unary() | Binary() | Cast() | Broadcast():
            return [_aligned(shape, block) for shape in shapes]
        case Reduce():
            whole = ((0, n) for n in shapes[0])
            each = enumerate(zip(offsets, sizes, whole, strict=True))
            kept = [w if i in op.dims else (o, s) for i, (o, s, w) in each]
            return [(tuple(o for o, _ in kept), tuple(s for _, s in kept))]
        case Matmul():
            a, b = shapes
            left, right = _aligned(a, block), _aligned(b, block)
            whole = a[-1]
            left = ((*left[0][:-1], 0), (*left[1][:-1], whole))
            right = ((*right[0][:-2], 0, offsets[-1]), (*right[1][:-2], whole, sizes[-1]))
            return [left, right]
        case Transpose():
            places = [op.permutation.index(i) for i in range(len(sizes))]
            return [(tuple(offsets[i] for i in places), tuple(sizes[i] for i in places))]
        case Reshape():
            inner = _reshaped(shapes[0], op.result.shape, block)
            return None if inner is None else [inner]
        case Slice():
            return [(tuple(x + y for x, y in zip(offsets, op.offsets, strict=True)), sizes)]
        case Concat():
            return _joined(shapes, op.dim, block)
        case _:
            return None


def _aligned(shape: tuple[int, ...], block: Block) -> Block:
    """The block of an operand that is aligned at the right and repeated where its size is 1."""
    offsets, sizes = (x[len(x) - len(shape) :] for x in block)
    return (
        tuple(0 if n == 1 else o for n, o in zip(shape, offsets, strict=True)),
        tuple(1 if n == 1 else s for n, s in zip(shape, sizes, strict=True)),
    )


def _joined(shapes: list[tuple[int, ...]], dim: int, block: Block) -> list[Block | None] | None:
    offsets, sizes = block
    start = 0
    blocks: list[Block | None] = [None] * len(shapes)
    for i, shape in enumerate(shapes):
        inside = offsets[dim] - start
        if inside >= 0 and inside + sizes[dim] <= shape[dim]:
            blocks[i] = ((*offsets[:dim], inside, *offsets[dim + 1 :]), sizes)
            return blocks
        start += shape[dim]
    return None


def _reshaped(old: tuple[int, ...], new: tuple[int, ...], block: Block) -> Block | None:
    """The block of the operand of a reshape that has the elements of a block of its result."""
    if 0 in (*old, *block[1]):
        return None
    offsets, sizes = [0] * len(old), list(old)
    i, j = 0, 0
    while i < len(old) or j < len(new):
        first_old, first_new = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (a := prod(old[first_old:i])) != (b := prod(new[first_new:j])):
            i, j = (i + 1, j) if a < b else (i, j + 1)
        if i == len(old) or j == len(new):
            i, j = len(old), len(new)  # what remains has size 1
        part = tuple(x[first_new:j] for x in block)
        if part[1] == new[first_new:j]:
            continue
        span = _span(new[first_new:j], (part[0], part[1]))
        inner = None if span is None else _of_span(old[first_old:i], *span)
        if inner is None:
            return None
        offsets[first_old:i], sizes[first_old:i] = inner
    return tuple(offsets), tuple(sizes)


def _span(shape: tuple[int, ...], block: Block) -> tuple[int, int] | None:
    """First element and number of elements of a block that lies in one piece."""
    offsets, sizes = block
    cut = max(i for i, (n, s) in enumerate(zip(shape, sizes, strict=True)) if n != s)
    if any(s != 1 for s in sizes[:cut]):
        return None
    return sum(o * prod(shape[i + 1 :]) for i, o in enumerate(offsets)), prod(sizes)


def _of_span(shape: tuple[int, ...], start: int, count: int) -> Block | None:
    """The inverse of :func:`_span`; None where the elements are no block."""
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
    return tuple(offsets), tuple(sizes)
