"""Transposes that create or split rows of a few elements, rewritten as joins of parts. Examples are
interleaved channels of pixels, and pairs that become halves. Tiles have two dimensions, so one
dimension of a transposed tile is the few elements of a row, and the block does next to nothing. If
each part has one element of every row, a tile can have two other dimensions, and runs of contiguous
elements are loaded or stored as a whole; the parts are strided in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from mirage.semantics.builder import Builder
from mirage.semantics.substitute import rewritten
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Rearrangement, Value

MOST_PARTS = 8
"""The most elements of a row that is split."""
SMALL_TILE = 2048
"""The number of elements below which a block computes its tile in less time than it takes to
start."""


def with_parts_of_short_rows(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with such transposes as joins; the same object if there are none."""
    short = {op: dim for op in graph.ops if (dim := _short(op)) is not None}
    return rewritten(
        graph,
        {op: partial(_joined, dim) for op, dim in short.items() if _is_copied(graph, op.result)},
    )


def _short(op: Op) -> int | None:
    """Return the dimension of the operand to split: the last one of the result or of the operand,
    if it is short and tiles of both last dimensions are small."""
    order = _order(op)
    if order is None:
        return None
    sizes = op.operands[0].shape
    wide = [d for d in order if sizes[d] > 1]
    if not wide or (last := max(wide)) == wide[-1]:
        return None
    if sizes[last] * sizes[wide[-1]] >= SMALL_TILE or op.result.type.size < SMALL_TILE:
        return None  # tiles are large enough, or there would be only one
    short = min(wide[-1], last, key=lambda d: sizes[d])
    return short if sizes[short] <= MOST_PARTS else None


def _order(op: Op) -> Sequence[int] | None:
    """Return, for each dimension of the result, that of the operand, if the op only reorders
    dimensions."""
    if not isinstance(op, Rearrangement) or op.renames:
        return None
    dims: Mapping[int, int] | None = op.source_dims()
    if dims is None or sorted(dims.values()) != list(range(len(op.operands[0].shape))):
        return None
    return [dims[i] for i in range(len(op.result.shape))]


def _is_copied(graph: KernelGraph, value: Value) -> bool:
    """Return whether only elementwise functions read a value, in any shape; another reader may be
    able to transpose it for free."""
    reached = {value}
    for op in graph.ops:
        if not reached.isdisjoint(op.operands):
            if not (isinstance(op, Elementwise) or op.renames):
                return False
            reached.update(op.results)
    return True


def _joined(dim: int, b: Builder, op: Op) -> Value:
    (x,) = op.operands
    order = _order(op)
    assert order is not None
    sizes = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    parts: list[Value] = []
    for i in range(x.shape[dim]):
        offsets = tuple(i if d == dim else 0 for d in range(len(sizes)))
        parts.append(b.transpose(b.slice(x, offsets, sizes), tuple(order)))
    return b.concat(tuple(parts), list(order).index(dim))
