"""Lookups in each row of a table, as sums of masked elements.

Consider an index that is known except for a number ``t`` for each of its elements: ``start + step *
t`` with ``0 <= t < n``. It names one of ``n`` known rows. If these are arranged in the table like
the elements of a dimension, the row that is looked up is the sum over that dimension of the
elements that are kept where the place is ``t``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from mirage.semantics.domain import Float64
from mirage.semantics.ops.kinds import Lookup, is_cast
from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.ugraph import KernelGraph, Op, Value, View
from mirage.verify.normal_form.one_of_a_row import Pick
from mirage.verify.normal_form.reading import Reading, read_again, repeats

_MOST = 1 << 22
"""The most places that are examined."""


@dataclass(frozen=True)
class _Index:
    """An index ``start + step * number``, for each element."""

    start: Array
    step: int = 0
    number: Value | None = None


def looked_up_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a lookup at places that depend on one unknown number each; None for other
    ops."""
    if not isinstance(op, Lookup) or not op.names_rows:
        return None
    table, index = op.operands
    while (made := reading.makers.get(index)) is not None and made.renames:
        index = made.operands[0]  # the same indices in the same order
    found = _index(reading, index)
    if found is None or found.number is None or found.step <= 0:
        return None
    if op.names_rows.from_end and found.start.size and found.start.min() < 0:
        return None
    low, high = reading.range(found.number)
    if low < 0 or not isfinite(high) or index.type.size * (high + 1) > _MOST:
        return None
    count = int(high) + 1
    places = found.start[..., None] + found.step * np.arange(count)
    rows = _as_dimensions(reading, table, places)
    if rows is None:
        return None
    rest = (1,) * (len(table.shape) - 1)
    lined = reading.places(count)
    number = found.number

    def written() -> Value:
        along = reading.write(lambda b: b.reshape(lined, (count, *rest)))
        wide = reading.write(lambda b: b.broadcast(number, index.shape))
        each = reading.write(lambda b: b.reshape(wide, (*index.shape, 1, *rest)))
        return reading.write(lambda b: b.binary(BinaryFn.EQ, along, each))

    picked = Pick(reading, written(), len(index.shape)).of(rows)
    shape = (*index.shape, *([1] if index.type.size else []), *table.shape[1:])
    wide = reading.write(lambda b: b.broadcast(picked, shape))
    return reading.write(lambda b: b.reshape(wide, op.results[0].shape))


def numbers_looked_up(graph: KernelGraph, contents: Mapping[int, Array]) -> Mapping[int, int]:
    """Return the inputs, by number, of which a program computes such indices, and the number below
    which their elements are: other elements name no row of the table."""
    inputs = {v: i for i, v in enumerate(graph.inputs) if i not in contents}
    found: dict[int, int] = {}

    def look(reading: Reading, op: Op) -> None:
        if not isinstance(op, Lookup) or not op.names_rows:
            return
        index = _index(reading, op.operands[1])
        if index is None or index.number is None or op.names_rows.from_end:
            return  # elements below 0 name a row
        if not 0 <= index.start.max() < index.step:
            return  # the same holds here
        number = index.number
        while number not in inputs and isinstance(view := reading.makers.get(number), View):
            if not view.whole and not repeats(view):
                return  # some elements are not read
            (number,) = view.operands
        if number in inputs:
            last = op.operands[0].shape[0] - 1 - int(index.start.min())
            count = last // index.step + 1
            found[inputs[number]] = min(found.get(inputs[number], count), count)

    read_again(graph, contents, {}, (look,))
    return found


def below_zero_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the condition that an index ``start + step * t`` is below zero, where ``0
    <= start < step``: that ``t`` is. None for other ops."""
    if op.function is not BinaryFn.LT or reading.range(op.operands[1]) != (0.0, 0.0):
        return None
    if not op.operands[0].dtype.is_integer:
        return None
    index = _index(reading, op.operands[0])
    if index is None or index.number is None or not index.start.size:
        return None
    if index.step < 2 or index.start.min() < 0 or index.start.max() >= index.step:
        return None
    number = index.number
    return reading.write(lambda b: b.binary(BinaryFn.LT, number, b.constant(0, number.dtype)))


def _index(reading: Reading, x: Value) -> _Index | None:
    """Return how an index is computed from known values and one unknown number."""
    elements = reading.elements(x)
    low, high = reading.range(x)
    if elements is None and low == high:
        elements = np.full(x.shape, low)
    if elements is not None:
        return _Index(elements)
    op = reading.makers.get(x)
    if isinstance(op, View):
        return _viewed(reading, op)
    if is_cast(op):
        return _index(reading, op.operands[0])
    if op is not None and op.function in (BinaryFn.ADD, BinaryFn.MUL):
        first, second = (_index(reading, v) for v in op.operands)
        found = None if first is None or second is None else _combined(op, first, second)
        if found is not None:
            return found
    return _Index(np.zeros(x.shape), 1, x)


def _viewed(reading: Reading, view: View) -> _Index | None:
    (x,) = view.operands
    inner = _index(reading, x)
    if inner is None:
        return None
    shape = view.results[0].shape
    start = np.broadcast_to(inner.start, x.shape)
    (seen,) = view.compute(Float64(), [(start,)], 0, shape)
    number = inner.number
    if number is not None:
        wide = reading.write(lambda b, n=number: b.broadcast(n, x.shape))
        number = reading.apply(view, (wide,))
    return _Index(seen, inner.step, number)


def _combined(op: Op, first: _Index, second: _Index) -> _Index | None:
    known, other = (second, first) if second.number is None else (first, second)
    if known.number is not None:
        return None
    shape = op.results[0].shape
    if op.function is BinaryFn.ADD:
        start = np.broadcast_to(known.start + other.start, shape)
        return _Index(start, other.step, other.number)
    if not known.start.size or (known.start != known.start.flat[0]).any():
        return None
    factor = int(known.start.flat[0])
    return _Index(np.broadcast_to(other.start * factor, shape), other.step * factor, other.number)


def _as_dimensions(reading: Reading, table: Value, places: Array) -> Value | None:
    """Return the table's rows at ``places``, each of which is a row of the table, as a view of the
    table. Dimensions on which the place does not depend have one element."""
    strides = [
        int(places.take(1, d).flat[0] - places.flat[0]) if places.shape[d] > 1 else 0
        for d in range(places.ndim)
    ]
    indices = np.indices(places.shape, sparse=True)
    linear = sum(s * i for s, i in zip(strides, indices, strict=True))
    order = sorted((d for d in range(places.ndim) if strides[d]), key=lambda d: -strides[d])
    sizes = tuple(places.shape[d] for d in order)
    dense = [int(np.prod(sizes[k + 1 :])) for k in range(len(sizes))]
    if not (np.broadcast_to(linear, places.shape) == places).all():
        return None
    if [strides[d] for d in order] != dense or int(np.prod(sizes)) != table.shape[0]:
        return None
    rest = table.shape[1:]
    found = reading.write(lambda b: b.reshape(table, (*sizes, *rest)))
    turned = sorted(range(len(order)), key=lambda k: order[k])
    if turned != list(range(len(order))):
        whole = (*turned, *range(len(order), len(order) + len(rest)))
        found = reading.write(lambda b: b.transpose(found, whole))
    shape = tuple(n if strides[d] else 1 for d, n in enumerate(places.shape))
    return reading.write(lambda b: b.reshape(found, (*shape, *rest)))
