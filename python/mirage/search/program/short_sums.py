"""Sums and maxima over the few last elements of a row, rewritten as sums and maxima of parts.
Windows of pixels are an example, and pairs that are complex numbers. Tiles have two dimensions: if
the elements to reduce are one of them, a block computes one row and does next to nothing. If each
part has one element of every window, a tile has many rows, and a thread loads neighbours together;
the parts are strided in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from itertools import product
from math import prod

from mirage.search.program.short_rows import MOST_PARTS, SMALL_TILE
from mirage.semantics.builder import Builder
from mirage.semantics.element_types import DType
from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.substitute import rewritten
from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph, Op, Value, View

_TERMS: Mapping[object, BinaryFn] = {ReduceFn.SUM: BinaryFn.ADD, ReduceFn.MAX: BinaryFn.MAX}


def with_parts_of_short_sums(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with such reductions as elementwise functions of parts; the same object if
    there are none."""
    return rewritten(graph, dict.fromkeys(_found(graph), _of_parts))


def _found(graph: KernelGraph) -> list[Op]:
    """Return the reductions of a few elements that are neighbours in memory, and those of a few
    others whose results are in turn reduced in this way (a window has rows of neighbours)."""
    given = set(graph.inputs)  # values of which parts are addresses
    short: list[Contraction] = []
    for op in graph.ops:
        if isinstance(op, Contraction):
            if _is_short(op) and op.operands[0] in given:
                short.append(op)
                given.update(op.results)
        elif isinstance(op, Elementwise | View) and given.issuperset(op.operands):
            given.update(op.results)
    found: list[Op] = []
    read: set[Value] = set()  # by a reduction that was found, in any shape
    for op in reversed(graph.ops):
        if isinstance(op, Contraction) and op in short and (_is_last(op) or op.result in read):
            found.append(op)
            read.update(op.operands)
        elif isinstance(op, View) and not read.isdisjoint(op.results):
            read.update(op.operands)
    return found


def _is_short(op: Contraction) -> bool:
    count = prod(op.operands[0].shape[d] for d in op.over[0])
    total = len(op.operands) == 1 and op.function in _TERMS and not op.result.dtype.is_integer
    return total and count <= MOST_PARTS and op.result.type.size >= SMALL_TILE


def _is_last(op: Contraction) -> bool:
    """Return whether an op reduces the last dimension that has several elements."""
    wide = [d for d, n in enumerate(op.operands[0].shape) if n > 1]
    return bool(wide) and wide[-1] in op.over[0]


def _of_parts(b: Builder, op: Op) -> Value:
    assert isinstance(op, Contraction)
    (x,), (dims,) = op.operands, op.over
    if op.sums and x.dtype.is_half:
        x = b.cast(x, DType.F32)  # as a sum over a dimension is computed
    sizes = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    places = product(*(range(n if d in dims else 1) for d, n in enumerate(x.shape)))
    parts = [b.slice(x, at, sizes) for at in places]
    total = reduce(partial(b.binary, _TERMS[op.function]), parts)
    return total if total.dtype is op.result.dtype else b.cast(total, op.result.dtype)
