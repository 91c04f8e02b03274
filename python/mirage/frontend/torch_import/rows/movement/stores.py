"""Rows of stores by index: choices between the old and the stored element.

An index outside of its dimension, which PyTorch refuses, stores nothing. If several stores have the
same place, the last one counts, which is one of the results that PyTorch may give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.movement.indexing import (
    MOST_COMPARED,
    along,
    entries_of,
)
from mirage.frontend.torch_import.rows.movement.several_indices import (
    linear,
    places_from_the_end,
)
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import broadcast_shapes, normalize_dims
from mirage.semantics.numbers import Number
from mirage.semantics.positions import Lookup, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Value


def _stored_at(b: Lowering, index: Value, size: int) -> Value:
    """Return which of the indices ``[..., i]`` is stored at each of ``size`` places, counted from
    one, ``[..., place]``; zero if none is."""
    count = index.shape[-1]
    if index.type.size * size > MOST_COMPARED:
        raise Unsupported(f"{index.type.size} stores to {size} places")
    known = b.found.get((index, size))
    if known is not None and any(known in op.results for op in b.ops):
        return known  # keys and values are stored at the same places
    here = b.reshape(index, (*index.shape, 1))
    meets = b.binary(BinaryFn.EQ, here, b.typed(iota(b, (size,), 0), index.dtype))
    number = b.combine(BinaryFn.ADD, iota(b, (count,), 0), 1)
    counted = b.binary(BinaryFn.KEEP, meets, b.reshape(number, (count, 1)))
    b.found[index, size] = b.reduced(ReduceFn.MAX, counted, (-2,), False)
    return b.found[index, size]


def _scatter(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, source or number)``: replace the elements of each line along ``dim`` that
    its indices select."""
    x, index = c.value(0), c.value(2)
    source = c.operand(3)
    rank = len(x.shape)
    if not rank or not index.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), rank)
    if not index.type.size:
        return x
    for d in range(rank):
        if d != dim and index.shape[d] != x.shape[d]:  # only some of the lines
            part, rest = (
                b.cut(x, d, *bounds)
                for bounds in ((0, index.shape[d]), (index.shape[d], x.shape[d] - index.shape[d]))
            )
            inner = Call(c.op, (part, *c.args[1:]), (part.type,), c.used)
            return b.concat((_scatter(b, inner), rest), d)
    own = b.swapped(index, dim, -1)
    last = _stored_at(b, own, x.shape[dim])
    hit = b.combine(BinaryFn.LT, 0, last)
    if not isinstance(source, Value):
        stored: Value | float = source  # pyright: ignore
    else:
        part = source
        for d in range(rank):
            part = b.cut(part, d, 0, index.shape[d])
        stored = _chosen(b, b.swapped(b.typed(part, x.dtype), dim, -1), last)
    y = choose(b, hit, stored, b.swapped(x, dim, -1), x.dtype)
    return b.swapped(y, dim, -1)


def _chosen(b: Lowering, source: Value, last: Value) -> Value:
    """Return the elements of ``source[..., i]`` that are stored at each place (counted from
    one)."""
    count = source.shape[-1]
    if count == 1:
        return source
    number = b.combine(BinaryFn.ADD, iota(b, (count,), 0), 1)
    here = b.reshape(last, (*last.shape[:-1], 1, last.shape[-1]))
    own = b.binary(BinaryFn.EQ, here, b.reshape(number, (count, 1)))
    truth = source.dtype is DType.I1
    source = b.cast(source, DType.F32) if truth else source
    kept = b.binary(BinaryFn.KEEP, own, b.reshape(source, (*source.shape, 1)))
    one = b.reduced(ReduceFn.SUM, kept, (-2,), False)
    return b.combine(BinaryFn.NE, one, 0) if truth else one


def _put(b: Lowering, x: Value, dim: int, index: Value, values: Value | Number) -> Value:
    """Replace the parts of ``x`` along ``dim`` that an index of rank 1 selects by those of
    ``values``, or by a number."""
    size, count = x.shape[dim], index.shape[0]
    if not count:
        return x
    column = (size, *(1 for _ in x.shape[dim + 1 :]))
    if count == 1:  # a single part: it is the one that is stored at every place
        place = b.reshape(b.typed(iota(b, (size,), 0), index.dtype), column)
        one = b.reshape(index, (1,) * len(column))
        return choose(b, b.binary(BinaryFn.EQ, place, one), values, x, x.dtype)
    last = _stored_at(b, index, size)
    hit = b.combine(BinaryFn.LT, 0, last)
    stored: Value | Number = values
    if isinstance(values, Value):
        number = b.number_of(values)
        place = b.combine(BinaryFn.SUB, last, 1)
        stored = (
            along(b, values, dim, b.combine(BinaryFn.MAX, place, 0)) if number is None else number
        )
    return choose(b, b.reshape(hit, column), stored, x, x.dtype)


def _index_copy(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, source)``; indices below zero are refused by PyTorch."""
    x, index, source = c.value(0), c.value(2), c.value(3)
    if not x.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    shape = (*x.shape[:dim], index.type.size, *x.shape[dim + 1 :])
    line = b.reshaped(index, (index.type.size,))
    return _put(b, x, dim, line, b.typed(b.reshaped(source, shape), x.dtype))


def _index_fill(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index, number or tensor without dimensions)``: an index may count from the
    end."""
    x, index, number = c.value(0), c.value(2), c.operand(3)
    if not x.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    line = places_from_the_end(b, b.reshaped(index, (index.type.size,)), x.shape[dim])
    if isinstance(number, Value):
        shape = (*x.shape[:dim], index.type.size, *x.shape[dim + 1 :])
        number = b.spread(b.typed(number, x.dtype), shape)
    return _put(b, x, dim, line, number)


def index_put(b: Lowering, c: Call) -> Value:
    """``op(x, indices, values)``: store by indices along some dimensions, or store a number where a
    mask is true."""
    x, values = c.value(0), c.value(2)
    given = c.args[1]
    mask = given[0] if isinstance(given, list) and len(given) == 1 else None  # pyright: ignore
    if isinstance(mask, Value) and mask.dtype is DType.I1:
        if values.type.size != 1:
            raise Unsupported("as many stores as a mask has")
        where = b.reshaped(mask, (*mask.shape, *(1 for _ in x.shape[len(mask.shape) :])))
        one = b.reshaped(values, ())
        return b.spread(choose(b, where, one, x, x.dtype), x.shape)
    entries = entries_of(c)
    dims = [d for d, _ in entries]
    common: tuple[int, ...] = ()
    for _, index in entries:
        common = broadcast_shapes(common, index.shape)
    lead = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    rest = [d for d in range(len(x.shape)) if d not in dims]
    others = [x.shape[d] for d in rest]
    found = (*others[:lead], *common, *others[lead:])
    if broadcast_shapes(values.shape, found) != found:
        raise Unsupported(f"stores of {values.shape} to {found}")
    indices = {d: places_from_the_end(b, i, x.shape[d]) for d, i in entries}
    wide = b.spread(b.typed(values, x.dtype), found)
    end = lead + len(common)
    wide = b.permuted(wide, (*range(lead, end), *range(lead), *range(end, len(found))))
    one = _one_of_each(b, x, indices, common, wide)
    return _at_places(b, x, indices, common, wide) if one is None else one


def _at_places(
    b: Lowering, x: Value, indices: Mapping[int, Value], common: tuple[int, ...], values: Value
) -> Value:
    """Return ``x`` with ``values``, whose first dimensions are those of the indices, at the places
    that the indices name among all elements of the indexed dimensions."""
    rest = [d for d in range(len(x.shape)) if d not in indices]
    sizes, others = [x.shape[d] for d in indices], [x.shape[d] for d in rest]
    count = math.prod(common)
    place = b.reshaped(b.spread(linear(b, list(indices.values()), sizes), common), (count,))
    order = (*indices, *rest)
    table = b.reshaped(b.permuted(x, order), (math.prod(sizes), *others))
    found = _put(b, table, 0, place, b.reshaped(values, (count, *others)))
    found = b.reshaped(found, (*sizes, *others))
    return b.permuted(found, tuple(order.index(d) for d in range(len(order))))


def _one_of_each(
    b: Lowering, x: Value, indices: Mapping[int, Value], common: tuple[int, ...], values: Value
) -> Value | None:
    """Return the result of a store of one element in each line: all indices but one count all lines
    along a dimension each (``x[arange(b), :, pos] = values``). None for other stores."""
    counted = {_counts(b, i, x.shape[d], len(common)): d for d, i in indices.items()}
    counted.pop(None, None)
    others = [d for d in indices if d not in counted.values()]
    if len(counted) != len(common) or len(others) != 1:
        return None
    (dim,) = others
    lines = [counted[axis] for axis in range(len(common))]
    shape = tuple(x.shape[d] if d in lines else 1 for d in range(len(x.shape)))
    order = tuple(sorted(range(len(lines)), key=lambda axis: lines[axis]))
    own = b.reshaped(b.permuted(b.spread(indices[dim], common), order), shape)
    size = x.shape[dim]
    place = b.typed(iota(b, (size,), 0), own.dtype)
    place = b.reshaped(place, (size, *(1 for _ in x.shape[dim + 1 :])))
    rest = [d for d in range(len(x.shape)) if d not in indices]
    stored = b.reshaped(values, (*values.shape, 1))
    where = [*lines, *rest, dim]
    stored = b.permuted(stored, tuple(where.index(d) for d in range(len(x.shape))))
    return choose(b, b.binary(BinaryFn.EQ, own, place), stored, x, x.dtype)


def _counts(b: Lowering, index: Value, size: int, rank: int) -> int | None:
    """Return the dimension, of the ``rank`` dimensions of all indices, along which an index counts
    the ``size`` elements of a dimension; None for other indices."""
    made = {v: op for op in b.ops for v in op.results}
    wide = [d for d, n in enumerate(index.shape) if n > 1]
    op = made.get(index)
    while op is not None and op.renames:
        op = made.get(op.operands[0])
    if not isinstance(op, Lookup) or op.counts_along is None:
        return None
    if len(wide) != 1 or index.type.size != size or op.result.type.size != size:
        return None
    return rank - len(index.shape) + wide[0]


STORES: dict[str, Row] = {
    "aten.scatter.src": _scatter,
    "aten.scatter.value": _scatter,
    "aten.index_copy": _index_copy,
    "aten.index_fill.int_Scalar": _index_fill,
    "aten.index_fill.int_Tensor": _index_fill,
}
"""Torch ops that store by index."""
