"""Concatenations (joins) moved towards the results until they disappear.

A function of joined parts is the joined functions of the parts, and a sum over the joined dimension
is the sum of the parts' sums: a product with joined features needs no copy of them. Axis labels can
then follow dimensions that the join would have hidden. A join that does not disappear in this way
stays where it was.

Attention over a cache and a new token needs no copy of the cache: it is the sum over the cached
keys plus the sum over the new ones, over the sum of both denominators (the online-maximum rewrite
gives the exponentials that are added one maximum). Each part then has scores and sums of its own,
so there are more sets of intermediates to choose from; in a program of more than ``EXPONENTIALS``
ops an exponential keeps its joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    KernelGraph,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Transpose,
    Unary,
    Value,
)

EXPONENTIALS = 32
"""The number of ops of a program up to which joins move past exponentials."""


@dataclass(frozen=True, eq=False)
class Joined:
    """A value that is known as parts along ``dim``; ``joins`` are the ops that would join them. It
    has the ``shape``, or (for None) the shape of the parts, except for their sizes."""

    dim: int
    parts: tuple[Value, ...]
    joins: frozenset[Op]
    shape: tuple[int, ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(v.shape[self.dim] for v in self.parts)


class StuckError(Exception):
    """Some op needs the result of joins as one tensor."""

    def __init__(self, joins: frozenset[Op]) -> None:
        super().__init__(joins)
        self.joins = joins


def without_joins(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without the joins that can be moved out; the same object if there are
    none."""
    moved = {op for op in graph.ops if op.joined_along is not None}
    while moved:
        result = _without(graph, moved)
        if isinstance(result, KernelGraph):
            return result
        moved -= result
    return graph


def _without(graph: KernelGraph, moved: set[Op]) -> KernelGraph | frozenset[Op]:
    """Return the graph without some joins, or the joins among them that must stay."""
    try:
        return Rewriter(graph, moved).run()
    except StuckError as stuck:
        return stuck.joins


class Rewriter:
    """Moves joins from op to op, tracking values that are known as parts and values that are
    not."""

    def __init__(self, graph: KernelGraph, moved: AbstractSet[Op]) -> None:
        self.graph, self.moved = graph, moved
        self.build = Builder()
        self.joined: dict[Value, Joined] = {}
        self.values: dict[Value, Value] = {v: v for v in graph.inputs}

    def run(self) -> KernelGraph:
        """Return the rewritten graph. Raises :class:`StuckError`."""
        for op in self.graph.ops:
            if op.joined_along is not None and op in self.moved:
                parts = tuple(self._whole(v) for v in op.operands)
                wide = op.result.dtype
                typed = (v if v.dtype is wide else self.build.cast(v, wide) for v in parts)
                self.joined[op.result] = Joined(op.joined_along, tuple(typed), frozenset({op}))
            elif any(v in self.joined for v in op.operands):
                self._move(op)
            else:
                operands = tuple(self.values[v] for v in op.operands)
                same = operands == op.operands
                new = op if same else with_operands(op, operands)
                self.build.ops.append(new)
                self.values.update(zip(op.results, new.results, strict=True))
        outputs = tuple(self._whole(v) for v in self.graph.outputs)
        return KernelGraph(self.graph.name, self.graph.inputs, tuple(self.build.ops), outputs)

    def _whole(self, value: Value) -> Value:
        if value in self.joined:
            raise StuckError(self.joined[value].joins)
        return self.values[value]

    def _move(self, op: Op) -> None:
        found = {self.joined[v] for v in op.operands if v in self.joined}
        joins = frozenset[Op]().union(*(j.joins for j in found))
        new = self._moved(op)
        if new is None:
            raise StuckError(joins)
        self._note(op, new, joins)

    def _note(self, op: Op, new: tuple[int, list[Value]] | Value, joins: frozenset[Op]) -> None:
        """Record the result of an op: one value, or parts."""
        if isinstance(new, Value):
            self.values[op.result] = self._typed(new, op.result)
        else:
            dim, parts = new
            typed = tuple(self._typed(v, op.result) for v in parts)
            self.joined[op.result] = Joined(dim, typed, joins)

    def _typed(self, value: Value, like: Value) -> Value:
        return value if value.dtype is like.dtype else self.build.cast(value, like.dtype)

    def _moved(self, op: Op) -> tuple[int, list[Value]] | Value | None:
        """Apply the op to parts, which gives parts again or one value; None if it needs the joined
        tensor."""
        b = self.build
        match op:
            case Unary() if op.fn is not UnaryFn.EXP or len(self.graph.ops) <= EXPONENTIALS:
                return self._each(op, lambda v: b.unary(op.fn, v))
            case Cast():
                return self._each(op, lambda v: b.cast(v, op.result.dtype))
            case Binary():
                return self._binary(op)
            case Matmul():
                return self._matmul(op)
            case Reduce():
                return self._reduce(op)
            case Transpose():
                j = self.joined[op.operands[0]]
                parts = [b.transpose(v, op.permutation) for v in j.parts]
                return op.permutation.index(j.dim), parts
            case Reshape():
                return self._reshape(op)
            case Broadcast():
                j = self.joined[op.operands[0]]
                dim = j.dim + len(op.result.shape) - len(op.operands[0].shape)
                return dim, [b.broadcast(v, _resized(op.result, dim, v, j.dim)) for v in j.parts]
            case _:
                return None

    def _each(self, op: Op, apply: Callable[[Value], Value]) -> tuple[int, list[Value]]:
        j = self.joined[op.operands[0]]
        return j.dim, [apply(v) for v in j.parts]

    def _reshape(self, op: Op) -> tuple[int, list[Value]] | None:
        j = self.joined[op.operands[0]]
        old, new = op.operands[0].shape, op.result.shape
        for dim, size in enumerate(new):
            if size == old[j.dim] and prod(new[:dim]) == prod(old[: j.dim]):
                shapes = (_resized(op.result, dim, v, j.dim) for v in j.parts)
                return dim, [self.build.reshape(v, s) for v, s in zip(j.parts, shapes, strict=True)]
        return None

    def _reduce(self, op: Reduce) -> tuple[int, list[Value]] | Value:
        j = self.joined[op.operands[0]]
        parts = [self.build.reduce(op.fn, v, op.dims) for v in j.parts]
        if j.dim not in op.dims:
            return j.dim, parts
        fn = BinaryFn.ADD if op.fn is ReduceFn.SUM else BinaryFn.MAX
        total = parts[0]
        for part in parts[1:]:
            total = self.build.binary(fn, total, part)
        return total

    def _binary(self, op: Binary) -> tuple[int, list[Value]] | None:
        rank = len(op.result.shape)
        operands = [self._known(v) for v in op.operands]
        known = [j for j in operands if isinstance(j, Joined)]
        dim = known[0].dim + rank - len(known[0].parts[0].shape)
        sides: list[list[Value]] = []
        for operand in operands:
            side = self._parts_at(operand, dim, rank, known[0].sizes)
            if side is None:
                return None
            sides.append(side)
        return dim, [self.build.binary(op.fn, x, y) for x, y in zip(*sides, strict=True)]

    def _known(self, value: Value) -> Joined | Value:
        return self.joined[value] if value in self.joined else self.values[value]

    def _parts_at(
        self, operand: Joined | Value, dim: int, rank: int, sizes: tuple[int, ...]
    ) -> list[Value] | None:
        """Return the piece of an operand that each part is combined with, aligned at the right to
        ``rank`` dimensions."""
        if isinstance(operand, Joined):
            own = operand.dim + rank - len(operand.parts[0].shape)
            return list(operand.parts) if own == dim and operand.sizes == sizes else None
        lead = rank - len(operand.shape)
        if dim >= lead and operand.shape[dim - lead] > 1:
            return None
        return [operand] * len(sizes)

    def _matmul(self, op: Matmul) -> tuple[int, list[Value]] | Value | None:
        a, b = (self._known(v) for v in op.operands)
        rank = len(op.result.shape)
        (over_a,), (over_b,) = op.over
        for side, dim in ((a, over_a), (b, over_b)):
            if isinstance(side, Joined) and side.dim == dim:
                return self._sum_of_products(op, side, (a, over_a), (b, over_b))
        known = a if isinstance(a, Joined) else b
        assert isinstance(known, Joined)
        dim = known.dim + rank - len(known.parts[0].shape)
        sides: list[list[Value]] = []
        for operand, contracted in ((a, rank - 1), (b, rank - 2)):
            # the dimension that an operand contracts is none of the result's
            skipped = dim == contracted
            parts = (
                [operand] * len(known.sizes)
                if skipped and isinstance(operand, Value)
                else self._parts_at(operand, dim, rank, known.sizes)
            )
            if parts is None:
                return None
            sides.append(parts)
        return dim, [self.build.matmul(x, y, tf32=op.tf32) for x, y in zip(*sides, strict=True)]

    def _sum_of_products(
        self, op: Matmul, join: Joined, *sides: tuple[Joined | Value, int]
    ) -> Value | None:
        """Return a product that sums over the parts of a join, which is one of its sides or
        both."""
        parts: list[Sequence[Value]] = []
        for side, dim in sides:
            if isinstance(side, Value):
                found = self.summed_beside(side, dim, join)
            else:
                found = side.parts if side.dim == dim and side.sizes == join.sizes else None
            if found is None:
                return None
            parts.append(found)
        products = (self.build.matmul(x, y, tf32=op.tf32) for x, y in zip(*parts, strict=True))
        return reduce(partial(self.build.binary, BinaryFn.ADD), products)

    def summed_beside(self, whole: Value, dim: int, joined: Joined) -> Sequence[Value] | None:
        """Return the pieces of a whole value that are multiplied with each part of a join; None if
        the join has to stay."""
        del whole, dim, joined
        return None


def _resized(result: Value, dim: int, part: Value, own: int) -> tuple[int, ...]:
    """Return the shape of ``result`` with the part's size along ``dim``."""
    return (*result.shape[:dim], part.shape[own], *result.shape[dim + 1 :])
