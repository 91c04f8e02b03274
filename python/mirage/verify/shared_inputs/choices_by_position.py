"""Choices by positions, read as parts of tensors that are joined.

``x`` where the position is below 64, and zero elsewhere, is the first 64 elements of ``x`` followed
by zeros. Suppose that one program chooses its pieces by positions and another one cuts and joins
them. They are the same if they are read in the same way, so choices whose truth values follow from
positions alone are written as slices and joins, which small models can represent.

Choices that both programs make in the same way are not changed: they are equal without being
understood, and cutting them would only make the programs larger.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.substitute import rename_ops, with_operands, without_dead_ops
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value, View, launches

_MOST_BLOCKS = 16
"""The most pieces along a dimension, of equal length and without a change inside. Small models pin
this many."""
_MOST_PIECES = 16
"""The most pieces of a tensor."""
_MOST_ELEMENTS = 1 << 16
"""The most truth values that are computed."""


def with_choices_cut(
    first: KernelGraph, second: KernelGraph
) -> tuple[KernelGraph, KernelGraph] | None:
    """Return both programs with slices and joins in place of choices by positions; None if they
    make the same choices, or for kernels, which read positions themselves."""
    graphs = (first, second)
    if any(any(launches(g.ops)) for g in graphs):
        return None
    known = [_known_choices(g) for g in graphs]
    kinds = [Counter((m.shape, m.tobytes()) for m in found.values()) for found in known]
    if kinds[0] == kinds[1]:
        return None
    one, other = (_cut(g, found) for g, found in zip(graphs, known, strict=True))
    return one, other


def _known_choices(graph: KernelGraph) -> dict[Op, Array]:
    """Return the truth values of choices for which they follow from positions alone and change only
    a few times along each dimension."""
    numbers: set[Value] = set()
    ops: list[Op] = []
    for op in graph.ops:
        counted = isinstance(op, Lookup) and not op.operands
        plain = counted or op.number is not None or isinstance(op, (Elementwise, View))
        whole = all(v.dtype.is_integer and v.type.size <= _MOST_ELEMENTS for v in op.results)
        if plain and whole and numbers.issuperset(op.operands):
            numbers.update(op.results)
            ops.append(op)
    choices = [
        op
        for op in graph.ops
        if op.function is BinaryFn.KEEP
        and op.operands[0] in numbers
        and op.operands[0].dtype is DType.I1
        and op.operands[1].dtype is op.result.dtype
    ]
    masks = tuple(op.operands[0] for op in choices)
    found = evaluate(KernelGraph(graph.name, (), tuple(ops), masks), Float64(), ())
    truths = ((op, np.asarray(x[0]) != 0) for op, x in zip(choices, found, strict=True))
    return {op: truth for op, truth in truths if _in_blocks(truth)}


def _in_blocks(truth: Array) -> bool:
    """Return whether the truth values are the same within each of a few pieces of whole blocks."""
    if not truth.size:
        return False
    starts = [_changes(truth, dim) for dim in range(truth.ndim)]
    blocks = (n // math.gcd(n, *some) for n, some in zip(truth.shape, starts, strict=True))
    pieces = math.prod(len(some) + 1 for some in starts)
    return all(count <= _MOST_BLOCKS for count in blocks) and pieces <= _MOST_PIECES


def _changes(truth: Array, dim: int) -> list[int]:
    """Return the indices along a dimension at which truth values differ from the previous ones."""
    rows = np.moveaxis(truth, dim, 0).reshape(truth.shape[dim], -1)
    return [int(i) + 1 for i in np.nonzero((rows[1:] != rows[:-1]).any(1))[0]]


def _cut(graph: KernelGraph, choices: dict[Op, Array]) -> KernelGraph:
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for old in graph.ops:
        op = with_operands(old, tuple(names.get(v, v) for v in old.operands))
        if old not in choices:
            ops.append(op)
            continue
        b = Builder()
        value = _Pieces(b, op.operands[1], op.result.shape).of(choices[old])
        made = tuple(b.ops)
        if made and value is made[-1].results[0]:  # keep the identity of the value
            made = rename_ops(made, {value: op.result})
        else:
            names[op.result] = value
        ops.extend(made)
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return without_dead_ops(replace(graph, ops=tuple(ops), outputs=outputs))


class _Pieces:
    """The pieces of a choice of elements of ``x``, which are broadcast to ``shape``."""

    def __init__(self, b: Builder, x: Value, shape: tuple[int, ...]) -> None:
        self.b, self.x, self.shape = b, x, shape

    def of(self, truth: Array) -> Value:
        truth = truth.reshape((1,) * (len(self.shape) - truth.ndim) + truth.shape)
        return self._joined(truth, 0, (), ())

    def _joined(
        self, truth: Array, dim: int, offsets: tuple[int, ...], sizes: tuple[int, ...]
    ) -> Value:
        """Return the pieces at ``offsets`` of the dimensions before, joined along the remaining
        ones."""
        if dim == len(self.shape):
            return self._piece(bool(truth.all()), offsets, sizes)
        starts = [0, *_changes(truth, dim)]
        ends = [*starts[1:], self.shape[dim]]
        parts = [
            self._joined(
                np.take(truth, [start], axis=dim), dim + 1, (*offsets, start), (*sizes, end - start)
            )
            for start, end in zip(starts, ends, strict=True)
        ]
        return parts[0] if len(parts) == 1 else self.b.concat(tuple(parts), dim)

    def _piece(self, kept: bool, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
        if not kept:
            return self.b.broadcast(self.b.constant(0, self.x.dtype), sizes)
        given = self.x.shape
        lead = len(self.shape) - len(given)
        at = tuple(o if n > 1 else 0 for o, n in zip(offsets[lead:], given, strict=True))
        own = tuple(s if n > 1 else 1 for s, n in zip(sizes[lead:], given, strict=True))
        part = self.x if own == given else self.b.slice(self.x, at, own)
        return part if own == sizes else self.b.broadcast(part, sizes)
