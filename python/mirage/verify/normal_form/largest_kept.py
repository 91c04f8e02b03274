"""The largest of the numbers that are kept at the places of the largest element of a row. Some
element of a row is the largest one, so there is at least one such place, and the largest of the
numbers kept there is one of these numbers: a place that is found in this way is one of the row's
places.
"""

from __future__ import annotations

from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Op, Value
from mirage.verify.normal_form.one_of_a_row import masked
from mirage.verify.normal_form.reading import Reading


def largest_kept_rule(reading: Reading, op: Op) -> Value | None:
    """Return the result of a maximum of kept numbers, whose range is then known; None for other
    ops."""
    if op.function is not ReduceFn.MAX or not isinstance(op, Contraction):
        return None
    parts = masked(reading, op.operands[0])
    if parts is None or not _keeps_some(reading, parts[0], op):
        return None
    (found,) = reading.add(op)
    reading.ranges[found] = reading.range(parts[1])
    return found


def _keeps_some(reading: Reading, mask: Value, total: Contraction) -> bool:
    """Return whether a mask is true somewhere in each row that an op reduces: where an element
    equals the largest or the smallest one of its row."""
    op = reading.makers.get(mask)
    if op is None or op.function is not BinaryFn.EQ:
        return False
    return any(
        x.shape == mask.shape and _is_end(reading, end, x, total)
        for x, end in (op.operands, op.operands[::-1])
    )


def _is_end(reading: Reading, end: Value, x: Value, total: Contraction) -> bool:
    """Return whether a value is the largest or the smallest element of each row of ``x``, along the
    dimensions that an op reduces."""
    negative = _operand(reading, end, UnaryFn.NEG)
    largest = reading.makers.get(reading.source(end if negative is None else negative))
    if not isinstance(largest, Contraction) or largest.function is not ReduceFn.MAX:
        return False
    (of,) = largest.operands
    elements = of if negative is None else _operand(reading, of, UnaryFn.NEG)
    return elements is x and largest.over == total.over


def _operand(reading: Reading, x: Value, fn: UnaryFn) -> Value | None:
    """Return the value of which ``x`` is the function."""
    op = reading.makers.get(reading.source(x))
    return op.operands[0] if op is not None and op.function is fn else None
