"""Rows of lookups by index: gathers.

An index outside of its dimension, which PyTorch refuses, reads NaN (or minus infinity, if the table
is computed).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.movement.known_places import joined
from mirage.frontend.torch_import.rows.movement.repeated_indices import not_repeated
from mirage.frontend.torch_import.rows.movement.several_indices import (
    inside_of,
    is_computed_nearby,
    is_moved_by_formulas,
    is_picked,
    linear,
    picked_rows,
    places_from_the_end,
)
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.picked_elements import Index, picked_elements
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Elementwise, TensorType, Value, View

MOST_COMPARED = 1 << 22
"""The most pairs of a place and an index that are compared to find the element that is stored at
each place."""
MOST_SOUGHT = 1 << 22
"""The most elements of lines among which one of each is sought where they are computed: each is
compared with the index (about 1 µs for a million of them), which takes less time than to look the
elements up, in kernels of their own, as long as there are no more."""


def _counts_from_end(b: Lowering, index: Value, size: int) -> bool:
    """Return whether only the lookup itself can tell from which end an index counts."""
    low, high = b.range_of(index)
    return low < 0 <= high and not (-size <= low and high < size)


def _rows(b: Lowering, table: Value, index: Value, *, from_end: bool = False) -> Value:
    """Return rows of ``table``; a rank-0 index selects one row. An index that is given in another
    shape is read in that shape: it needs no copy."""
    if is_computed_nearby(b, table, index):
        return picked_rows(b, table, [(0, index)], from_end=from_end)
    if index.shape:
        lines = b.reshape(table, (*table.shape, 1)) if len(table.shape) == 1 else table
        rows = gather(b, lines, b.as_given(index), from_end=from_end)
        return b.reshaped(rows, (*index.shape, *table.shape[1:]))
    row = gather(b, table, b.reshape(index, (1,)), from_end=from_end)
    return b.reshape(row, table.shape[1:])


def _embedding(b: Lowering, c: Call) -> Value:
    """``op(weight, indices, padding_idx, …)``; the other arguments only affect gradients."""
    return _rows(b, c.value(0), c.value(1))


def _index_select(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index)``; indices below zero are refused by PyTorch."""
    x, index = c.value(0), c.value(2)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    found = joined(b, x, dim, index)
    if found is None:
        found = along(b, x, dim, b.reshaped(index, (index.type.size,)))
    return b.reshaped(found, c.result.shape)


def along(b: Lowering, x: Value, dim: int, index: Value) -> Value:
    """Return the parts of ``x`` that an index of rank 1 selects along ``dim``."""
    if not dim:
        return gather(b, x, index)
    if is_moved_by_formulas(b, x):
        return picked_rows(b, x, [(dim, index)], from_end=False)
    first = (dim, *(d for d in range(len(x.shape)) if d != dim))
    y = gather(b, b.transpose(x, first), index)
    back = (*range(1, dim + 1), 0, *range(dim + 1, len(x.shape)))
    return b.transpose(y, back)


def turned_around(b: Lowering, x: Value, dims: Iterable[int]) -> Value:
    """Return ``x`` with the last element first along ``dims``; flipping twice has no effect."""
    source, turned = b.turned.get(x, (x, frozenset[int]()))
    left = turned.symmetric_difference(d for d in dims if x.shape[d] > 1)
    y = source
    if any(left) and is_moved_by_formulas(b, y):  # others are rows
        ends = [n - 1 if d in left else None for d, n in enumerate(y.shape)]
        where = [Index((d,), last=last) for d, last in enumerate(ends)]
        y = picked_elements(b, y, where, y.shape)
    else:
        for dim in sorted(left):
            back = b.combine(BinaryFn.SUB, y.shape[dim] - 1, iota(b, (y.shape[dim],), 0))
            y = along(b, y, dim, back)
    if left:
        b.turned[y] = source, left
    return y


def _flip(b: Lowering, c: Call) -> Value:
    """``op(x, dims)``."""
    x = c.value(0)
    return turned_around(b, x, normalize_dims(c.integers(1), len(x.shape)))


def entries_of(c: Call) -> list[tuple[int, Value]]:
    """Return the index tensors of ``op(x, indices, …)`` with their dimensions."""
    given = c.args[1]
    entries: list[object] = list(given) if isinstance(given, list) else []  # pyright: ignore
    found = [(d, i) for d, i in enumerate(entries) if isinstance(i, Value)]
    if not found or any(i is not None and not isinstance(i, Value) for i in entries):
        raise Unsupported("indices that are not all tensors")
    if any(i.dtype is DType.I1 for _, i in found):
        raise Unsupported("an index of truth values")
    return found


def _index(b: Lowering, c: Call) -> Value:
    """``op(x, indices)``: index tensors, which broadcast, for some of the dimensions. The selected
    elements take the place of these dimensions if they are adjacent, and come first otherwise."""
    x, entries = c.value(0), entries_of(c)
    dims = [d for d, _ in entries]
    if len(dims) == 1 and (found := joined(b, x, *entries[0])) is not None:
        return found
    sizes = [x.shape[d] for d in dims]
    rest = [d for d in range(len(x.shape)) if d not in dims]
    from_end = len(entries) == 1 and _counts_from_end(b, entries[0][1], sizes[0])
    indices = [
        i if from_end else places_from_the_end(b, i, n)
        for (_, i), n in zip(entries, sizes, strict=True)
    ]
    inner = len(dims) == 1 and dims[0] > 0 and is_moved_by_formulas(b, x)
    if inner or is_picked(b, indices, sizes, c):
        return picked_rows(b, x, entries)
    place = linear(b, indices, sizes)
    table = b.permuted(x, (*dims, *rest))
    table = b.reshaped(table, (math.prod(sizes), *(x.shape[d] for d in rest)))
    y = _rows(b, table, place, from_end=from_end)
    rank = len(place.shape)
    lead = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    order = (*range(rank, rank + lead), *range(rank), *range(rank + lead, len(y.shape)))
    return b.permuted(y, order)


def _gather(b: Lowering, c: Call) -> Value:
    """``op(x, dim, index)``: from each line along ``dim``, the elements that its indices select."""
    x, index = c.value(0), c.value(2)
    if not x.shape or not index.shape:
        raise Unsupported("a tensor without dimensions")
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    ordered, along, values = b.orders.get(index, (None, dim, x))
    if ordered is x and along == dim:  # the elements at the places where they were found
        return values
    return elements_along(b, x, dim, index)


def elements_along(b: Lowering, x: Value, dim: int, index: Value) -> Value:
    """Return, from each line of ``x`` along ``dim``, the elements that its indices select."""
    whole, rank = x, len(x.shape)
    for d in range(rank):
        x = x if d == dim else b.cut(x, d, 0, index.shape[d])
    if index.shape[dim] == 1 and not x.dtype.is_integer and b.is_computed(x):
        computed = _of_elements(b, x, dim, index) if x.type.size > MOST_SOUGHT else None
        return _picked(b, x, dim, index) if computed is None else computed
    kept = [d for d in range(rank) if d == dim or index.shape[d] != 1]
    if (line := b.repeated_line(x, dim)) is not None:
        x, kept = line, [dim]
    if kept == [dim]:  # one line
        return _of_one_line(b, x, index)
    if is_moved_by_formulas(b, x):
        every = tuple(range(rank))
        own = not_repeated(b, index)
        where = [Index(every, own) if d == dim else Index((d,)) for d in every]
        return picked_elements(b, whole, where, index.shape)
    lines = tuple(index.shape[d] for d in kept)

    def place_along(i: int, d: int) -> Value:
        if d == dim:
            return b.reshaped(index, lines)
        line = iota(b, (index.shape[d],), 0)
        return b.reshaped(line, tuple(n if i == j else 1 for j, n in enumerate(lines)))

    places = [place_along(i, d) for i, d in enumerate(kept)]
    return _of_one_line(b, x, linear(b, places, [x.shape[d] for d in kept]), index.shape)


def _of_one_line(
    b: Lowering, x: Value, place: Value, shape: tuple[int, ...] | None = None
) -> Value:
    """Return the elements of ``x``, as one line, at places in it."""
    table = b.reshaped(x, (x.type.size, 1))
    found = gather(b, table, b.reshaped(place, (place.type.size,)))
    return b.reshaped(found, shape or place.shape)


def _of_elements(b: Lowering, x: Value, dim: int, index: Value) -> Value | None:
    """Return, from each line of ``x`` along ``dim``, the element that its index selects, computed
    from the selected elements of the tensors in memory of which each element of ``x`` is a
    function; None if it depends on others."""
    made = {v: op for op in b.ops for v in op.results}
    elements: dict[Value, Value] = {}

    def place(v: Value) -> int | None:
        """Return the dimension of ``v`` along which it varies with that of ``x``."""
        at = dim - (len(x.shape) - len(v.shape))
        return at if at >= 0 and v.shape[at] > 1 else None

    @cache  # values that are used several times
    def is_known(v: Value) -> bool:
        if place(v) is None:
            return True
        op = made.get(v)
        if isinstance(op, Elementwise):
            return all(map(is_known, op.operands))
        while isinstance(op, View):
            op = made.get(op.operands[0])
        return op is None and v.shape == x.shape and not v.dtype.is_integer

    def element(v: Value) -> Value:
        at, op = place(v), made.get(v)
        if at is None:
            return v
        if v not in elements:
            if isinstance(op, Elementwise):
                shape = (*v.shape[:at], 1, *v.shape[at + 1 :])
                result = Value(TensorType(shape, v.dtype))
                operands = tuple(map(element, op.operands))
                b.ops.append(replace(op, operands=operands, results=(result,)))
                elements[v] = result
            else:
                elements[v] = elements_along(b, v, dim, index)
        return elements[v]

    return element(x) if is_known(x) else None


def _picked(b: Lowering, x: Value, dim: int, index: Value) -> Value:
    """Return, from each line along ``dim``, the element that its index selects, if the lines are
    computed: the computation goes through all elements of a line and need not store them. An index
    that is outside gives minus infinity."""
    size = x.shape[dim]
    place = b.reshape(iota(b, (size,), 0, index.dtype), (size, *(1 for _ in x.shape[dim + 1 :])))
    chosen = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.EQ, place, index), x)
    y = b.reduce(ReduceFn.SUM, chosen, (dim,))
    inside = inside_of(b, index, size)
    if inside is None:
        return y
    return b.binary(BinaryFn.ADD, y, b.unary(UnaryFn.BIAS, b.cast(inside, x.dtype)))


def _one_hot(b: Lowering, c: Call) -> Value:
    """``op(index, classes)``."""
    index, classes = c.value(0), c.integer(1)
    if classes < 1:
        raise Unsupported("as many classes as the largest index requires")
    line = b.typed(iota(b, (classes,), 0), index.dtype)
    meets = b.binary(BinaryFn.EQ, b.reshape(index, (*index.shape, 1)), line)
    return b.typed(meets, c.result.dtype)


INDEXING: dict[str, Row] = {
    "aten.embedding": _embedding,
    "aten.index_select": _index_select,
    "aten.index.Tensor": _index,
    "aten.gather": _gather,
    "aten.flip": _flip,
    "aten.one_hot": _one_hot,
}
"""Torch ops that read by index."""
