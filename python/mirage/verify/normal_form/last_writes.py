"""Elements that are scattered to different places. If several elements are written to one place,
the last one remains: the place ``e`` gets element ``k`` if ``k`` is the largest number with ``t[k]
== e``. If all ``t[k]`` are different, like the places of the largest elements of a row, this holds
wherever ``t[k] == e``, and a scatter of their shares is a sum of one-hot rows.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Contraction, Op, Value
from mirage.verify.normal_form.one_index import turned
from mirage.verify.normal_form.one_of_a_row import keeps_one, masked, spans
from mirage.verify.normal_form.places_of_ranks import below_the_end, source_op
from mirage.verify.normal_form.reading import Reading


def last_write_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the condition that an element is the last one written to a place, if it
    is the only one: that it is written there. None for other ops."""
    if op.function is not BinaryFn.EQ:
        return None
    for last, number in (op.operands, op.operands[::-1]):
        found = _largest_kept(reading, last)
        if found is None or found[0].results[0] is not last:
            continue
        total, mask, numbers = found
        ((dim,),) = total.over
        asked = op.results[0].shape == mask.shape and numbers is number
        differ = asked and _differ_in(reading, numbers, mask, dim)
        if differ and _at_most_one(reading, mask, dim):
            return mask
    return None


def written_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum of masked elements that is kept where one of the masks is true: it
    is zero elsewhere. None for other ops."""
    if op.function is not BinaryFn.KEEP:
        return None
    some, x = op.operands
    asked = reading.makers.get(some)
    if asked is None or asked.function is not BinaryFn.LT or some.shape != x.shape:
        return None
    if reading.range(asked.operands[0]) != (0.0, 0.0):
        return None
    found, total = _asked(reading, asked.operands[1]), source_op(reading, x)
    if found is None or not isinstance(total, Contraction) or total.function is not ReduceFn.SUM:
        return None
    parts = masked(reading, total.operands[0])
    alike = total.over == found[0].over and asked.operands[1].shape == x.shape
    same = parts is not None and parts[0] is found[1] and total.operands[0].shape == parts[0].shape
    return x if alike and same else None


def _asked(reading: Reading, x: Value) -> tuple[Contraction, Value] | None:
    """Return the op that computes ``x``, which is positive where a mask is true somewhere along a
    dimension, and the mask: the largest of the numbers that it keeps, or a count of its places."""
    largest = _largest_kept(reading, x)
    if largest is not None:
        return largest[:2]
    count = source_op(reading, x)
    if not isinstance(count, Contraction) or count.function is not ReduceFn.SUM:
        return None
    truth = reading.source(count.operands[0])
    return (count, truth) if truth.dtype is DType.I1 else None


def any_written_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the condition that anything is written to a place, if at most one element
    is: that the number of these elements is positive. None for other ops."""
    if op.function is not BinaryFn.LT or reading.range(op.operands[0]) != (0.0, 0.0):
        return None
    found = _largest_kept(reading, op.operands[1])
    if found is None or op.operands[1].shape != op.results[0].shape:
        return None
    total, mask, _ = found
    ((dim,),) = total.over
    if (first := below_the_end(reading, mask, dim)) is not None:
        return reading.write(lambda b: b.reshape(first, op.results[0].shape))
    if not _at_most_one(reading, mask, dim):
        return None

    def counted(b: Builder) -> Value:
        return b.reduce(ReduceFn.SUM, b.cast(mask, DType.I64), (dim,))

    count = reading.write(counted)
    reading.ranges[count] = 0.0, 1.0
    shaped = reading.write(lambda b: b.reshape(count, op.results[0].shape))
    return reading.write(lambda b: b.binary(BinaryFn.LT, b.constant(0, DType.I64), shaped))


def truth_of_count_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a truth value as a number, if it says that a count, which is at most 1,
    is positive: it is the count. None for other ops."""
    if not is_cast(op):
        return None
    asked = reading.makers.get(op.operands[0])
    if asked is None or asked.function is not BinaryFn.LT:
        return None
    zero, count = asked.operands
    (low, high), alike = reading.range(count), count.shape == op.results[0].shape
    if reading.range(zero) != (0.0, 0.0) or not alike or not reading.is_whole(count):
        return None
    return count if low >= 0 and high <= 1 else None


def _largest_kept(reading: Reading, x: Value) -> tuple[Contraction, Value, Value] | None:
    """Return the op that computes ``x`` as the largest of some positive numbers that a mask keeps,
    the mask and the numbers."""
    op = source_op(reading, x)
    if not isinstance(op, Contraction) or op.function is not ReduceFn.MAX or len(op.over[0]) != 1:
        return None
    parts = masked(reading, op.operands[0])
    if parts is None or parts[0].shape != op.operands[0].shape:
        return None
    elements = reading.elements(parts[1])
    positive = elements is not None and (elements > 0).all()
    return (op, *parts) if positive else None


def _at_most_one(reading: Reading, mask: Value, dim: int) -> bool:
    """Return whether a truth value is true at one place along a dimension, or at none."""
    op = reading.makers.get(mask)
    if op is None or op.function is not BinaryFn.EQ:
        return False
    return any(
        not spans(other, mask, dim) and _differ_in(reading, x, mask, dim)
        for x, other in (op.operands, op.operands[::-1])
    )


def _differ_in(reading: Reading, x: Value, whole: Value, dim: int) -> bool:
    """Return whether no two elements of an operand are equal along a dimension of the result: a
    single one is repeated there."""
    own = dim - len(whole.shape) + len(x.shape)
    return whole.shape[dim] == 1 or (spans(x, whole, dim) and _differ(reading, x, own))


def _differ(reading: Reading, x: Value, dim: int) -> bool:
    """Return whether no two elements along a dimension of ``x`` are equal."""
    if x.shape[dim] == 1:
        return True
    elements = reading.elements(x)
    if elements is not None:
        ordered = np.moveaxis(np.sort(elements, dim), dim, 0)
        return bool((ordered[1:] > ordered[:-1]).all())
    op = reading.makers.get(x)
    if op is None:
        return False
    order = turned(op)
    if order is not None:
        return _differ(reading, op.operands[0], order[dim])
    if op.renames:
        dims = unit_free_dims(op.operands[0].shape, x.shape)
        return dims is not None and dim in dims and _differ(reading, op.operands[0], dims[dim])
    if is_cast(op):
        return _differ(reading, op.operands[0], dim)
    return isinstance(op, Contraction) and _picks_differ(reading, op, dim)


def _picks_differ(reading: Reading, op: Contraction, dim: int) -> bool:
    """Return whether an op picks an element of a row by each of different numbers along ``dim``,
    and all elements of the row differ."""
    if op.function not in (ReduceFn.SUM, ReduceFn.MAX) or len(op.over[0]) != 1:
        return False
    parts = masked(reading, op.operands[0])
    ((row,),) = op.over
    if parts is None or parts[0].shape != op.operands[0].shape or row == dim:
        return False
    mask, x = parts
    if not keeps_one(reading, mask, row) or spans(x, mask, dim):
        return False
    if op.function is ReduceFn.MAX and reading.range(x)[0] < 0:
        return False
    by_different = any(
        not spans(places, mask, dim)
        and not spans(number, mask, row)
        and _differ_in(reading, number, mask, dim)
        for places, number in _operands_both_ways(reading, mask)
    )
    return by_different and _differ_in(reading, x, mask, row)


def _operands_both_ways(reading: Reading, mask: Value) -> tuple[tuple[Value, ...], ...]:
    operands = reading.makers[mask].operands
    return operands, operands[::-1]
