"""Joins moved past elementwise computations, so that kernels write to their parts of the result.

A join of existing tensors is a copy; a join of computed values is free, since each kernel writes
its part. Rotary embeddings swap halves: ``x c + [-x2 x1] s`` is ``[x1 c1 - x2 s1, x2 c2 + x1 s2]``,
which one kernel computes, reading each element once. Joins are moved, one after the other, if less
is copied afterwards.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from mirage.cost.copy_kernels import copied_bytes
from mirage.search.program.joins import Joined, Rewriter
from mirage.search.program.shared_views import each_view_once, repeated_shape
from mirage.search.program.slices import with_early_slices
from mirage.search.program.storable import widens
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Op,
    Rearrangement,
    TensorType,
    Value,
)

Shape = tuple[int, ...]


def with_late_joins(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with its joins where the least is copied; the same object if nothing
    moves."""
    tried: set[Value] = set()
    while True:
        left = [op for op in graph.ops if op.joined_along is not None and op.result not in tried]
        if not left:
            return graph
        tried.add(left[0].result)
        best = min((_moved(graph, left[0], past) for past in (False, True)), key=_cost)
        if _cost(best) < _cost(graph):
            graph = best
            tried.clear()  # a join inside of the one that moved can move now


def _moved(graph: KernelGraph, join: Op, past: bool) -> KernelGraph:
    late = without_dead_ops(_Late(graph, {join}, past).run())
    return with_early_slices(each_view_once(late))


def _cost(graph: KernelGraph) -> tuple[int, int, int, int]:
    """Return the cost of joins and slices: the bytes that are copied; the bytes of values that are
    computed, stored and cut; the bytes of joins that other ops read (results are written anyway);
    and the number of elementwise ops that read a join."""
    definitions = {v: op for op in graph.ops for v in op.results}
    roots: dict[Value, Value] = {}
    for op in graph.ops:
        if isinstance(op, Rearrangement) or op.cut_at is not None:
            roots[op.result] = roots.get(op.operands[0], op.operands[0])
    joins = {op.result for op in graph.ops if op.joined_along is not None}
    cut = [op.result for op in graph.ops if op.cut_at is not None]
    readers = [op for op in graph.ops if isinstance(op, Elementwise)]
    return (
        copied_bytes(graph),
        sum(v.type.bytes for v in cut if roots[v] in definitions),
        sum(v.type.bytes for v in joins & {v for op in graph.ops for v in op.operands}),
        sum(not joins.isdisjoint(roots.get(v, v) for v in op.operands) for op in readers),
    )


class _Late(Rewriter):
    """Concatenates parts where an op needs them as one tensor, and cuts other operands. Parts stay
    separate ``past`` contractions if possible."""

    def __init__(self, graph: KernelGraph, moved: AbstractSet[Op], past: bool) -> None:
        super().__init__(graph, moved)
        self.past = past
        self.turned: dict[Value, Op] = {}  # transposes of joined values
        products = (op for op in graph.ops if isinstance(op, Contraction) and len(op.operands) == 2)
        self.factors = {v for op in products for v in op.operands}

    def _whole(self, value: Value) -> Value:
        if value in self.joined and value not in self.values:
            j = self.joined[value]
            made = self.turned.get(value)
            if made is not None:  # rows are stored as they were computed
                whole = with_operands(made, (self._whole(made.operands[0]),))
                self.build.ops.append(whole)
                self.values[value] = value
                return value
            make = self._joined_factor if value in self.factors else self.build.concat
            joined = make(j.parts, j.dim)
            self.values[value] = joined if j.shape is None else self.build.reshape(joined, j.shape)
        return self.values[value]

    def _joined_factor(self, parts: tuple[Value, ...], dim: int) -> Value:
        """Concatenate parts of a factor; those that are values in a wider type are joined before
        they are widened, since factors are stored."""
        made = {v: op for op in self.build.ops for v in op.results if v in parts}
        given = (made[v] for v in parts if v in made)
        narrow = tuple(op.operands[0] for op in given if widens(op))
        if len(narrow) < len(parts) or len({v.dtype for v in narrow}) > 1:
            return self.build.concat(parts, dim)
        return self.build.cast(self.build.concat(narrow, dim), parts[0].dtype)

    def _move(self, op: Op) -> None:
        known = [self.joined[v] for v in op.operands if v in self.joined]
        if isinstance(op, Rearrangement) and not op.renames:
            self.turned[op.result] = op
        if op.renames:
            (j,) = known
            found = self._reshape(op) if j.shape is None else None
            if found is None:
                self.joined[op.result] = replace(j, shape=op.result.shape)
            else:
                self._note(op, found, frozenset())
            return
        if not self.past and isinstance(op, Contraction):
            new = None
        elif any(j.shape is not None for j in known):
            new = self._in_shape(op, known)
        else:
            new = None if len(op.results) > 1 else self._moved(op)
        if new is None:
            whole = with_operands(op, tuple(self._whole(v) for v in op.operands))
            self.build.ops.append(whole)
            self.values.update(zip(op.results, whole.results, strict=True))
        else:
            self._note(op, new, frozenset())
            if known[0].shape is not None and op.result in self.joined:
                found = self.joined[op.result]
                self.joined[op.result] = replace(found, shape=op.result.shape)

    def _in_shape(self, op: Op, known: list[Joined]) -> tuple[int, list[Value]] | None:
        """Apply an elementwise op to parts of values that have another shape than these."""
        first, *others = known
        outer = first.shape
        if outer is None or outer != op.result.shape or not isinstance(op, Elementwise):
            return None
        if any((j.shape, j.dim, j.sizes) != (outer, first.dim, first.sizes) for j in others):
            return None
        like = first.parts[0].shape
        inner = (*like[: first.dim], sum(first.sizes), *like[first.dim + 1 :])
        sides: list[list[Value]] = []
        for operand in op.operands:
            x = self._known(operand)
            if isinstance(x, Value):
                x = self._in(x, outer, inner)
                if x is None:
                    return None
            side = self._parts_at(x, first.dim, len(inner), first.sizes)
            if side is None:
                return None
            sides.append(side)
        parts = zip(*sides, first.parts, strict=True)
        return first.dim, [self._applied(op, tuple(xs), like.shape) for *xs, like in parts]

    def _applied(self, op: Op, operands: tuple[Value, ...], shape: Shape) -> Value:
        """Apply ``op`` to other operands."""
        result = Value(TensorType(shape, op.result.dtype))
        self.build.ops.append(replace(op, operands=operands, results=(result,)))
        return result

    def _in(self, x: Value, outer: Shape, inner: Shape) -> Value | None:
        """Return a value that is repeated to ``outer`` in the shape that is repeated to ``inner``;
        if it is computed elementwise, it is computed in that shape, so that it can be cut early."""
        shape = repeated_shape(x.shape, outer, inner)
        if shape is None:
            return None
        made = next((op for op in self.build.ops if x in op.results), None)
        if isinstance(made, Elementwise):
            operands = [self._in(v, outer, inner) for v in made.operands]
            known = tuple(v for v in operands if v is not None)
            if len(known) == len(operands):
                return self._applied(made, known, shape)
        return self.build.reshape(x, shape)

    def _parts_at(
        self, operand: Joined | Value, dim: int, rank: int, sizes: Shape
    ) -> list[Value] | None:
        found = super()._parts_at(operand, dim, rank, sizes)
        if found is not None or isinstance(operand, Joined):
            return found
        own = dim - (rank - len(operand.shape))
        parts: list[Value] = []
        start = 0
        for size in sizes:
            offsets = tuple(start if d == own else 0 for d in range(len(operand.shape)))
            shape = tuple(size if d == own else n for d, n in enumerate(operand.shape))
            parts.append(self._part(operand, offsets, shape))
            start += size
        return parts

    def _part(self, operand: Value, offsets: Shape, shape: Shape) -> Value:
        """Return a block of a value, which may have been cut before."""
        for op in self.build.ops:
            known = op.cut_at == offsets and op.operands == (operand,)
            if known and op.result.shape == shape:
                return op.result
        return self.build.slice(operand, offsets, shape)
