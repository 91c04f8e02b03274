"""Indices that are known when a program is imported, held as tensors.

Rows in reverse order, or every other one of them, are looked up by a function of positions. Kernels
read the index of a row, so PyTorch would compute the function in each call; but it is the same each
time. If the indices name all rows in their order (a mask of tokens at each pair of a batch and a
position), each of them once or equally often (a token for each of its experts), nothing is looked
up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64, Planes
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.positions import index_of
from mirage.semantics.scalar import Array, DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import Elementwise, KernelGraph, Movement, Op, Reshape, Value

MOST_ELEMENTS = 1 << 24
_LARGEST = {DType.I1: 1, DType.I32: (1 << 31) - 1, DType.I64: 1 << 53}
"""The largest number of each type that is not rounded and does not wrap around here."""


def with_known_indices(
    graph: KernelGraph, held: Mapping[Value, Array], hold: Callable[[Array], Value]
) -> KernelGraph:
    """Return ``graph`` with lookups by tensors in place of lookups by functions of positions, and
    without lookups of all rows in their order; the same object if there are neither. ``held`` are
    known inputs, and ``hold`` makes one."""
    known = KnownIntegers(graph, held)
    tables: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        index = index_of(op)
        times = 0 if index is None else _times_in_order(known.of(index), op.operands[0].shape[0])
        if times:
            ops += _repeated(op.operands[0], times)
            op = Reshape(ops[-1].results if times > 1 else op.operands[:1], op.results)
        elif index is not None and known.is_computed(index):
            if index not in tables:
                numbers = known.of(index)
                assert numbers is not None
                tables[index] = hold(numbers.astype(np.int32))
            op = replace(op, operands=(op.operands[0], tables[index]))
        ops.append(op)
    if all(new is op for new, op in zip(ops, graph.ops, strict=True)):
        return graph
    return without_dead_ops(replace(graph, ops=tuple(ops)))


def _times_in_order(numbers: Array | None, rows: int) -> int:
    """Return how often known indices name each row of a table, all in their order; 0 if they do
    something else."""
    if numbers is None or not rows or numbers.size % rows:
        return 0
    times = numbers.size // rows
    return times if np.array_equal(np.ravel(numbers), np.repeat(np.arange(rows), times)) else 0


def _repeated(table: Value, times: int) -> list[Op]:
    """Return ops that repeat each row of a table several times; none for once."""
    b = Builder()
    if times > 1:
        rows, *row = table.shape
        b.broadcast(b.reshape(table, (rows, 1, *row)), (rows, times, *row))
    return b.ops


class KnownIntegers:
    """The elements of integer tensors that depend on positions and known inputs alone."""

    def __init__(self, graph: KernelGraph, held: Mapping[Value, Array]) -> None:
        self._makers = {v: op for op in graph.ops for v in op.results}
        self._known: dict[Value, Array | None] = dict(held)

    def is_computed(self, value: Value) -> bool:
        """Return whether arithmetic computes the known integers of a value, which i32 holds."""
        op = self._makers.get(value)
        while isinstance(op, Movement) and len(op.operands) == 1:
            op = self._makers.get(op.operands[0])
        numbers = self.of(value) if isinstance(op, Elementwise) else None
        return numbers is not None and bool(np.all(np.abs(numbers) <= _LARGEST[DType.I32]))

    def of(self, value: Value) -> Array | None:
        """Return the elements of a value; None if they are not known."""
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, value: Value) -> Array | None:
        op = self._makers.get(value)
        is_small = value.type.size <= MOST_ELEMENTS
        if op is None or not is_small or len(op.results) != 1:
            return None
        if op.number is not None:
            return np.full(value.shape, float(op.number))
        positions = isinstance(op, Lookup) and not op.operands
        known = positions or isinstance(op, Elementwise | Movement)
        if not known or value.dtype not in _LARGEST:
            return None
        operands: list[Planes] = []
        for x in op.operands:
            numbers = self.of(x) if x.dtype.is_integer else None
            if numbers is None:
                return None
            operands.append((numbers.astype(np.float64),))
        numbers = np.asarray(op.compute(Float64(), operands, 0, value.shape)[0])
        return numbers if np.all(np.abs(numbers) <= _LARGEST[value.dtype]) else None
