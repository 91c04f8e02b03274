"""Rows of ops that add, or reduce in another way, by index.

For each place, the parts whose index names it are selected and reduced together, in the order of
the parts. So the result is the same each time. An index outside of its dimension, which PyTorch
refuses, is added nowhere.
"""

from __future__ import annotations

import math

import numpy as np

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.indexing import (
    MOST_COMPARED,
    entries_of,
)
from mirage.frontend.torch_import.rows.movement.several_indices import linear, places_from_the_end
from mirage.frontend.torch_import.rows.movement.stores import index_put
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import broadcast_shapes, normalize_dims
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.numbers import Number
from mirage.semantics.ops.op import Value
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph


def _index_add(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, source, alpha)``: add to each part of ``x`` along ``dim`` the parts of
    the source whose index names it, all at once."""
    x, index, source, alpha = c.value(0), c.value(2), c.value(3), c.number(4, 1)
    if not x.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    source = b.reshaped(source, (*x.shape[:dim], index.type.size, *x.shape[dim + 1 :]))
    return _added_along(b, x, dim, index, source, alpha)


def _added_along(
    b: Lowering, x: Value, dim: int, index: Value, source: Value, alpha: Number
) -> Value:
    """Return ``x`` plus ``alpha`` times the parts of ``source`` along ``dim``, each added at its
    index."""
    count, size = index.type.size, x.shape[dim]
    if source.type.size * size > MOST_COMPARED:
        raise Unsupported(f"{count} sums of {source.type.size // max(count, 1)} to {size} places")
    here = b.reshape(index, (count, 1))
    meets = b.binary(BinaryFn.EQ, here, iota(b, (size,), 0, _positions(index)))
    rest = tuple(1 for _ in x.shape[dim + 1 :])
    parts = b.reshape(source, (*source.shape[: dim + 1], 1, *source.shape[dim + 1 :]))
    return _added(b, x, b.reshape(meets, (count, size, *rest)), parts, dim, alpha)


def _scatter_add(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, source)``: add to the elements of each line along ``dim`` that its
    indices name."""
    x, dim, meets, parts = _lines(b, c, c.value(2), c.value(3))
    y = _added(b, x, meets, parts, len(x.shape) - 1, 1)
    return b.swapped(y, dim, -1)


def _lines(b: Lowering, c: Call, index: Value, source: Value) -> tuple[Value, int, Value, Value]:
    """Return, for ``op(x, dim, index, source, …)``: ``x`` with ``dim`` as its last dimension;
    ``dim``; whether each index names each place, ``[..., i, place]``; and the sources, ``[..., i,
    1]``."""
    x = c.value(0)
    rank = len(x.shape)
    if not rank or not index.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), rank)
    if any(index.shape[d] != x.shape[d] for d in range(rank) if d != dim):
        raise Unsupported(f"indices of {index.shape} for a part of {x.shape}")
    size = x.shape[dim]
    if index.type.size * size > MOST_COMPARED:
        raise Unsupported(f"{index.type.size} sums to {size} places")
    own = b.swapped(index, dim, -1)
    places = iota(b, (size,), 0, _positions(index))
    meets = b.binary(BinaryFn.EQ, b.reshape(own, (*own.shape, 1)), places)
    part = b.swapped(b.slice(source, (0,) * rank, index.shape), dim, -1)
    return b.swapped(x, dim, -1), dim, meets, b.reshape(part, (*part.shape, 1))


def _scatter_reduce(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, source, how, include_self)``."""
    return _reduced_at(b, c, c.value(2), c.value(3))


def _index_reduce(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, source, how, include_self)``, with one index for each part."""
    x, index, source = c.value(0), c.value(2), c.value(3)
    if not x.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    shape = (*x.shape[:dim], index.type.size, *x.shape[dim + 1 :])
    line = b.reshaped(index, (index.type.size, *(1 for _ in x.shape[dim + 1 :])))
    return _reduced_at(b, c, b.spread(line, shape), b.reshaped(source, shape))


def _reduced_at(b: Lowering, c: Call, index: Value, source: Value) -> Value:
    how, own = c.arg(4), bool(c.arg(5, True))
    dtype = c.value(0).dtype
    if how == "sum" and own:
        inner = Call(c.op, (c.value(0), c.arg(1), index, source), c.results, c.used)
        return _scatter_add(b, inner)
    if dtype.is_integer or how not in ("sum", "mean", "amax", "amin"):
        raise Unsupported(f"{how!r} of {dtype.value} by index")
    x, dim, meets, parts = _lines(b, c, index, source)
    x, parts = wide(b, x), wide(b, parts)
    at = len(x.shape) - 1
    if how in ("sum", "mean"):
        y = b.reduced(ReduceFn.SUM, b.binary(BinaryFn.KEEP, meets, parts), (at,), False)
        y = b.binary(BinaryFn.ADD, x, y) if own else y
    else:
        y = _extreme(b, x if own else None, meets, parts, at, least=how == "amin")
    count = b.reduced(ReduceFn.SUM, b.typed(meets, x.dtype), (at,), False)
    if how == "mean":
        total = b.combine(BinaryFn.ADD, count, 1.0) if own else b.combine(BinaryFn.MAX, count, 1.0)
        y = b.binary(BinaryFn.DIV, y, total)
    if not own:
        y = choose(b, b.combine(BinaryFn.LT, 0.0, count), y, x, x.dtype)
    return b.swapped(b.typed(y, dtype), dim, -1)


def _extreme(
    b: Lowering, x: Value | None, meets: Value, parts: Value, dim: int, *, least: bool
) -> Value:
    """Return the largest (or least) of ``x`` and of the parts whose index names each place."""
    if least:
        x = None if x is None else b.unary(UnaryFn.NEG, x)
        parts = b.unary(UnaryFn.NEG, parts)
    met = choose(b, meets, parts, -math.inf, parts.dtype)
    y = b.reduced(ReduceFn.MAX, met, (dim,), False)
    y = y if x is None else b.binary(BinaryFn.MAX, x, y)
    return b.unary(UnaryFn.NEG, y) if least else y


def _index_put(b: Lowering, c: Call) -> Value:
    """``op(x, indices, values, accumulate)``: store, or add, at index tensors, which broadcast, for
    some of the dimensions."""
    if not c.arg(3):
        return index_put(b, c)
    x, values, entries = c.value(0), c.value(2), entries_of(c)
    dims = [d for d, _ in entries]
    sizes = [x.shape[d] for d in dims]
    rest = [d for d in range(len(x.shape)) if d not in dims]
    places = [places_from_the_end(b, i, n) for (_, i), n in zip(entries, sizes, strict=True)]
    place = linear(b, places, sizes)
    rank = len(place.shape)
    lead = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    others = [x.shape[d] for d in rest]
    found = (*others[:lead], *place.shape, *others[lead:])
    if broadcast_shapes(values.shape, found) != found:
        raise Unsupported(f"stores of {values.shape} to {found}")
    first = (*range(lead, lead + rank), *range(lead), *range(lead + rank, len(found)))
    parts = b.permuted(b.spread(b.typed(values, x.dtype), found), first)
    order = (*dims, *rest)
    table = b.reshaped(b.permuted(x, order), (math.prod(sizes), *others))
    source = b.reshaped(parts, (place.type.size, *others))
    y = _added_along(b, table, 0, b.reshaped(place, (place.type.size,)), source, 1)
    y = b.reshaped(y, tuple(x.shape[d] for d in order))
    return b.permuted(y, tuple(map(order.index, range(len(order)))))


def _put(b: Lowering, c: Call) -> Value:
    """``op(x, index, values, accumulate)``: the same, with the tensor as one line."""
    x, index, values = (c.value(i) for i in range(3))
    line, at, stored = (b.reshaped(v, (v.type.size,)) for v in (x, index, values))
    inner = Call(c.op, (line, [at], stored, c.arg(3, False)), (line.type,), c.used)
    return b.reshaped(_index_put(b, inner), x.shape)


def _positions(index: Value) -> DType:
    return DType.I32 if index.dtype is DType.I32 else DType.I64


def _added(b: Lowering, x: Value, meets: Value, parts: Value, dim: int, alpha: Number) -> Value:
    """Return ``x`` plus ``alpha`` times the sum over ``dim`` of the parts whose index names each
    place."""
    dtype = x.dtype
    if dtype.is_integer and alpha != int(alpha):
        raise Unsupported(f"integers times {float(alpha):g}")
    if not dtype.is_integer:
        x, parts = wide(b, x), wide(b, parts)
    elif dtype is DType.I1:
        raise Unsupported("sums of truth values")
    else:
        x, parts = b.typed(x, DType.I64), b.typed(parts, DType.I64)
    total = b.reduced(ReduceFn.SUM, b.binary(BinaryFn.KEEP, meets, parts), (dim,), False)
    total = total if alpha == 1 else b.combine(BinaryFn.MUL, total, alpha)
    return b.typed(b.binary(BinaryFn.ADD, x, total), dtype)


def _embedding_bag(b: Lowering, c: Call) -> list[Value]:
    """``op(weight, indices, offsets, _, mode, _, weights, with_last, padding)``: the sum, mean or
    maximum of the rows of each bag, which starts at its offset and ends where the next one starts.
    An empty bag is zero."""
    if any(c.used[1:]):
        raise Unsupported("sizes of bags, or where their maxima are")
    table, index, offsets = c.value(0), c.value(1), c.value(2)
    mode, weights, padding = c.arg(4, 0), c.optional(6), c.arg(8)
    if len(index.shape) != 1 or not index.type.size:
        raise Unsupported("bags of no rows")
    count, (bags, width) = index.type.size, c.result.shape
    rows = wide(b, gather(b, table, index))
    if weights is not None:
        rows = b.binary(BinaryFn.MUL, rows, b.reshape(wide(b, weights), (count, 1)))
    kept = None
    if isinstance(padding, int) and padding >= 0:
        kept = b.combine(BinaryFn.NE, index, padding)
    if _is_known(b, offsets, np.arange(offsets.type.size) * (count // bags)) and count % bags == 0:
        inside, shape, dim = kept, (bags, count // bags, width), 1
        inside = None if kept is None else b.reshape(kept, (bags, count // bags, 1))
    else:
        if bags * rows.type.size > MOST_COMPARED:
            raise Unsupported(f"{bags} bags of {count} rows of {width}")
        inside = b.reshape(_bags(b, offsets, bags, count), (count, bags, 1))
        if kept is not None:
            inside = b.binary(BinaryFn.AND, inside, b.reshape(kept, (count, 1, 1)))
        shape, dim = (count, 1, width), 0
    return [b.typed(_of_bags(b, b.reshape(rows, shape), inside, dim, mode), c.result.dtype)]


def _of_bags(b: Lowering, rows: Value, inside: Value | None, dim: int, mode: object) -> Value:
    """Return the sum (``mode`` 0), mean (1) or maximum (2) along ``dim`` of the rows that are
    inside."""
    if inside is None:
        if mode == 1:
            return b.mean(rows, (dim,), False)
        return b.reduced(ReduceFn.MAX if mode == 2 else ReduceFn.SUM, rows, (dim,), False)
    count = b.reduced(ReduceFn.SUM, b.typed(inside, rows.dtype), (dim,), False)
    if mode == 2:
        most = _extreme(b, None, inside, rows, dim, least=False)
        return b.binary(BinaryFn.KEEP, b.combine(BinaryFn.LT, 0.0, count), most)
    total = b.reduced(ReduceFn.SUM, b.binary(BinaryFn.KEEP, inside, rows), (dim,), False)
    if mode == 0:
        return total
    return b.binary(BinaryFn.DIV, total, b.combine(BinaryFn.MAX, count, 1.0))


def _bags(b: Lowering, offsets: Value, bags: int, count: int) -> Value:
    """Return which of ``count`` rows are in which bag, ``[row, bag]``."""
    row = b.reshape(iota(b, (count,), 0, offsets.dtype), (count, 1))
    begun = b.binary(BinaryFn.LE, offsets, row)  # [row, offset]
    inside = b.cut(begun, 1, 0, bags)
    if bags == 1 and offsets.type.size == 1:
        return inside
    ended = b.cut(begun, 1, 1, offsets.type.size - 1)
    if ended.shape[1] < bags:
        none = b.spread(b.constant(0, DType.I1), (count, 1))
        ended = b.concat((ended, none), 1)
    return b.binary(BinaryFn.AND, inside, b.unary(UnaryFn.NOT, ended))


def _is_known(b: Lowering, x: Value, numbers: np.ndarray) -> bool:
    """Return whether ``x`` is computed from numbers only, and equals these numbers."""
    graph = without_dead_ops(KernelGraph("", (), tuple(b.ops), (x,)))
    made = {v for op in graph.ops for v in op.results}
    if x not in made or any(v not in made for op in graph.ops for v in op.operands):
        return False
    (found,) = evaluate_floats(graph, [])
    return bool(np.array_equal(found, numbers))


ACCUMULATE: dict[str, Row] = {
    "aten.index_add": _index_add,
    "aten.scatter_add": _scatter_add,
    "aten.scatter_reduce.two": _scatter_reduce,
    "aten.index_reduce": _index_reduce,
    "aten.index_put": _index_put,
    "aten.put": _put,
    "aten.embedding_bag": _embedding_bag,
    "aten.embedding_bag.padding_idx": _embedding_bag,
    "aten._embedding_bag": _embedding_bag,
    "aten._embedding_bag_forward_only": _embedding_bag,
}
"""Torch ops that add, or reduce in another way, by index."""
