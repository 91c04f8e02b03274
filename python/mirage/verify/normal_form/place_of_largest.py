"""Elements that are picked at the place of the largest element of their row.

``argmax`` is written as a place: the last one is the maximum of the places of the largest element,
and the first one is the end minus the maximum of their distances from the end. The element of the
row itself at this place is the largest element.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.scalar import Array, BinaryFn, ReduceFn
from mirage.semantics.ugraph import Contraction, Op, Value
from mirage.verify.normal_form.ranks import places_of
from mirage.verify.normal_form.reading import Reading


def keeps_largest(reading: Reading, x: Value, mask: Value, dim: int) -> bool:
    """Return whether a mask, which compares places along ``dim`` with a number, is true at a place
    where the largest element of the row of ``x`` is, for each row."""
    op = reading.makers.get(mask)
    if op is None or op.function is not BinaryFn.EQ:
        return False
    for number in op.operands:
        found = _place_of_largest(reading, number)
        if found is not None and _are_its_rows(reading, x, mask, dim, number, found):
            return True
    return False


def kept_at_largest_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the element that a mask keeps at the place of the largest element of a
    row: as the largest element. None for other ops."""
    if op.function is not BinaryFn.KEEP:
        return None
    mask, x = op.operands
    if x.shape != mask.shape:
        return None
    for dim, n in enumerate(x.shape):
        if n > 1 and keeps_largest(reading, x, mask, dim):
            largest = reading.write(lambda b, d=dim: b.reduce(ReduceFn.MAX, x, (d,)))
            return reading.write(lambda b, y=largest: b.binary(BinaryFn.KEEP, mask, y))
    return None


def _place_of_largest(reading: Reading, number: Value) -> tuple[Value, Value, int] | None:
    """Return the place of the largest element before casts and views, the row that has it, and the
    dimension of the row."""
    viewed = places_of(reading, number)
    if viewed is None:
        return None
    place = viewed[0]
    op = reading.makers.get(place)
    if op is not None and op.function is BinaryFn.SUB:
        end, left = reading.certain.number(op.operands[0]), reading.source(op.operands[1])
        found = _of_places(reading, left)
        if found is None or end != found[2] - 1 or left.shape != place.shape:
            return None
        row, dim, count, places = found
        is_left = np.array_equal(places, count - 1 - np.arange(count))
        return (place, row, dim) if is_left else None
    found = _of_places(reading, place)
    if found is None or not np.array_equal(found[3], np.arange(found[2])):
        return None
    return place, found[0], found[1]


def _of_places(reading: Reading, x: Value) -> tuple[Value, int, int, Array] | None:
    """Return the row, its dimension and its length, and the numbers of which ``x`` is the largest
    one that belongs to a largest element of the row."""
    op = reading.makers.get(x)
    if not isinstance(op, Contraction) or op.function is not ReduceFn.MAX or len(op.over[0]) != 1:
        return None
    ((dim,),) = op.over
    kept = _made(reading, op.operands[0])
    if kept is None or kept.function is not BinaryFn.KEEP:
        return None
    asked = _made(reading, kept.operands[0])
    if asked is None or asked.function is not BinaryFn.EQ:
        return None
    for row, largest in (asked.operands, asked.operands[::-1]):
        most = _made(reading, largest)
        if (
            isinstance(most, Contraction)
            and most.function is ReduceFn.MAX
            and most.over == ((dim,),)
            and most.operands[0] is row
            and row.shape == op.operands[0].shape
        ):
            numbers = reading.elements(kept.operands[1])
            if numbers is None:
                return None
            line = np.broadcast_to(numbers, row.shape)
            line = np.moveaxis(line, dim, -1).reshape(-1, row.shape[dim])
            return (row, dim, row.shape[dim], line[0]) if (line == line[0]).all() else None
    return None


def _are_its_rows(
    reading: Reading,
    x: Value,
    mask: Value,
    dim: int,
    number: Value,
    found: tuple[Value, Value, int],
) -> bool:
    """Return whether ``x`` has, along ``dim``, the elements of the row whose largest one is at the
    number, in their order."""
    place, row, own = found
    first, second, of_place = (places_of(reading, v) for v in (x, row, number))
    if first is None or second is None or of_place is None or first[0] is not second[0]:
        return False
    rows = np.moveaxis(second[1], own, -1).reshape(place.type.size, -1)
    if rows.shape[1] != mask.shape[dim]:
        return False
    numbers = np.broadcast_to(of_place[1], mask.shape).astype(int)
    line = np.arange(mask.shape[dim]).reshape((-1,) + (1,) * (len(mask.shape) - dim - 1))
    return np.array_equal(rows[numbers, line], np.broadcast_to(first[1], mask.shape))


def _made(reading: Reading, x: Value) -> Op | None:
    return reading.makers.get(reading.source(x))
