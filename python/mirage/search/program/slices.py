"""Slices moved towards the inputs, where they cost nothing.

A block of a result is the result on blocks of the operands: columns of ``x @ w`` need only these
columns of ``w``. If a block of an input is contiguous in memory, it is an address, and nothing is
copied; axis labels can then follow dimensions that the slice would have hidden. A projection to
several parts that are split afterwards (gate and up, or query, key and value in one weight) becomes
several projections that read the input once.

Slices of a value move together, and only if less is copied than before and no product grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from mirage.cost.copy_kernels import is_address
from mirage.search.program.shared_views import each_view_once, repeated_shape
from mirage.semantics.blocks import Block, Shape, operand_blocks
from mirage.semantics.region import reshape_groups
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import (
    Cast,
    Elementwise,
    KernelGraph,
    Matmul,
    Op,
    Rearrangement,
    Reshape,
    Slice,
    TensorType,
    Transpose,
    Value,
)


def with_early_slices(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with its slices where the least is copied; the same object if nothing
    moves."""
    sources = dict.fromkeys(op.operands[0] for op in graph.ops if op.cut_at is not None)
    early = _early(graph, sources)
    renamed = {r for op in graph.ops if op.renames for r in op.results}
    views = [v for v in sources if v in renamed]
    if not views or len(views) == len(sources):
        return early
    # cut from the tensor itself, a part of a view may be the part that another slice needs
    others = _early(reduce(_moved, views, graph), [v for v in sources if v not in renamed])
    return others if _cost(others) < _cost(early) else early


def _early(graph: KernelGraph, sources: Iterable[Value]) -> KernelGraph:
    """Return ``graph`` with the slices of some values moved, each if less is copied then."""
    for source in sources:
        if source in graph.inputs:
            continue
        moved = _moved(graph, source)
        if _cost(moved) < _cost(graph) and _products(moved) <= _products(graph):
            graph = moved
    return graph


def _moved(graph: KernelGraph, source: Value) -> KernelGraph:
    return each_view_once(_Rewriter(graph, source).run())


def _cost(graph: KernelGraph) -> tuple[int, int]:
    """Return the cost of slices: the bytes that are cut, with those of transposes that are stored
    so that they can be cut, and then the number of slices of these."""
    waits = _waits(graph)
    return cut_bytes(graph) + sum(v.type.bytes for v in set(waits)), len(waits)


def _waits(graph: KernelGraph) -> list[Value]:
    """Return the transposes that slices are cut from, each as often as that happens."""
    definitions = {v: op for op in graph.ops for v in op.results}
    found: list[Value] = []
    for op in graph.ops:
        if op.cut_at is not None:
            source = definitions.get(op.operands[0])
            while source is not None and source.renames:
                source = definitions.get(source.operands[0])
            if isinstance(source, Rearrangement):
                found.append(source.result)
    return found


def cut_bytes(graph: KernelGraph) -> int:
    """Return the bytes of joins and of slices that are not contiguous: axis labels cannot follow
    these, whether they are copied or not."""
    return sum(
        op.result.type.bytes
        for op in graph.ops
        if op.joined_along is not None
        or (op.cut_at is not None and (op.result in graph.outputs or not is_address(op)))
    )


def _products(graph: KernelGraph) -> int:
    """Return the number of multiplications of all products."""
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
        self.inner: dict[Value, Value] = {}  # a reshape becomes the same computation in its shape
        self.ops: list[Op] = []

    def run(self) -> KernelGraph:
        for op in self.graph.ops:
            if op.cut_at is not None and op.operands[0] is self.source:
                block = (op.cut_at, op.result.shape)
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
            return self._whole(value)
        key = (value, block)
        if key not in self.blocks:
            op = self.definitions.get(value)
            needed = None if op is None else operand_blocks(op, block)
            result = Value(TensorType(block[1], value.dtype))
            if op is None or needed is None:
                inner = None if op is None else self._before(op)
                if inner is not None:
                    self.blocks[key] = self._block(inner, block)
                    return self.blocks[key]
                new: Op = Slice((self._whole(value),), (result,), block[0])
            elif op.cut_at is not None or op.joined_along is not None:
                new = Cast((self._only_block(op, needed),), (result,))
                if new.operands[0].dtype is value.dtype:
                    self.blocks[key] = new.operands[0]
                    return new.operands[0]
            else:
                blocks = zip(op.operands, needed, strict=True)
                operands = tuple(self._block(v, b) if b else self._whole(v) for v, b in blocks)
                new = replace(op, operands=operands, results=(result,))
            self.ops.append(new)
            self.blocks[key] = result
        return self.blocks[key]

    def _before(self, op: Op) -> Value | None:
        """Return the result of a reshape as an elementwise op on reshapes of its operands, or as a
        transpose or a slice of a reshape. These can be cut even if a block of the reshape's result
        does not consist of blocks of its operand."""
        if op.result in self.inner:
            return self.inner[op.result]
        made = self.definitions.get(op.operands[0]) if op.renames else None
        if made is not None and made.cut_at is not None:
            return self._sliced(made, op.result)
        if isinstance(made, Rearrangement) and not made.renames:
            return self._transposed(made, op.result)
        if isinstance(made, Elementwise):
            inner = made.result.shape
            new = op.result.shape
            shapes = [repeated_shape(v.shape, inner, new) if v.shape else () for v in made.operands]
            known = [s for s in shapes if s is not None]
            if len(known) < len(shapes):
                return None
            pairs = zip(made.operands, known, strict=True)
            operands = tuple(self._reshaped(v, shape) for v, shape in pairs)
            value = Value(op.result.type)
            self.definitions[value] = replace(made, operands=operands, results=(value,))
            self.inner[op.result] = value
        return self.inner.get(op.result)

    def _transposed(self, op: Rearrangement, result: Value) -> Value | None:
        """Return a transpose in another shape that splits its dimensions, as a transpose of the
        split dimensions."""
        groups = reshape_groups(op.result.shape, result.shape)
        dims = op.source_dims() or {}
        if any(len(g.operand) != 1 or g.operand[0] not in dims for g in groups):
            return None
        split = sorted(groups, key=lambda group: dims[group.operand[0]])
        order = [d for group in split for d in group.result]
        inner = self._reshaped(op.operands[0], tuple(result.shape[d] for d in order))
        value = Value(result.type)
        permutation = tuple(map(order.index, range(len(order))))
        self.definitions[value] = Transpose((inner,), (value,), permutation)
        self.inner[result] = value
        return value

    def _sliced(self, op: Op, result: Value) -> Value | None:
        """Return single elements of some dimensions, whose other dimensions have another shape, as
        the same elements of a tensor with that shape."""
        (x,), cut, at = op.operands, op.result.shape, op.cut_at
        assert at is not None
        single = [d for d, n in enumerate(cut) if n < x.shape[d]]
        if any(cut[d] > 1 for d in single):
            return None
        kept = [d for d in range(len(cut)) if d not in single]
        starts: dict[int, tuple[int, ...]] = {}  # the sizes that begin at a dimension
        for group in reshape_groups(tuple(cut[d] for d in kept), result.shape):
            dims = [kept[d] for d in group.operand]
            if not dims or any(dims[0] < d < dims[-1] for d in single):
                return None
            starts[dims[0]] = tuple(result.shape[d] for d in group.result)
        sizes: list[int] = []
        offsets: list[int] = []
        part: list[int] = []
        for d in range(len(cut)):
            found = (x.shape[d],) if d in single else starts.get(d, ())
            sizes += found
            offsets += [at[d] if d in single else 0] * len(found)
            part += (1,) if d in single else found
        value = Value(TensorType(tuple(part), x.dtype))
        inner = self._reshaped(x, tuple(sizes))
        self.definitions[value] = Slice((inner,), (value,), tuple(offsets))
        self.inner[result] = self._reshaped(value, result.shape)
        return self.inner[result]

    def _reshaped(self, value: Value, shape: Shape) -> Value:
        """Return a value in another shape, made from the tensor that it is a view of."""
        source = self.definitions.get(value)
        while source is not None and source.renames:
            value = source.operands[0]
            source = self.definitions.get(value)
        if shape in (value.shape, ()):
            return value
        result = Value(TensorType(shape, value.dtype))
        self.definitions[result] = Reshape((value,), (result,))
        return result

    def _whole(self, value: Value) -> Value:
        """Return a value in the new graph, computing it if it does not exist yet."""
        if value not in self.values:
            op = self.definitions[value]
            new = replace(op, operands=tuple(map(self._whole, op.operands)))
            self.ops.append(new)
            self.values[value] = value
        return self.values[value]

    def _only_block(self, op: Op, needed: list[Block | None]) -> Value:
        """Return the block of the only operand that is needed."""
        ((value, block),) = [(v, b) for v, b in zip(op.operands, needed, strict=True) if b]
        return self._block(value, block)
