"""Counts of the places of a row that are below a number, and limits of whole numbers.

``sum over j of (j < n)`` is ``n``, at least 0 and at most the size of the row: a mean over the
first ``n`` elements may divide by the sum of its mask or by ``n.clamp(1, size)``. Limits by
constants are written in one order, ``min(max(x, low), high)``, and once on each side.
"""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Contraction, Op, Value
from mirage.verify.normal_form.known_truths import before_casts
from mirage.verify.normal_form.one_of_a_row import are_places, spans
from mirage.verify.normal_form.reading import Reading


def counted_places_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the number of places that are below, or not below, a whole number; None
    for other ops."""
    if op.function is not ReduceFn.SUM or not isinstance(op, Contraction) or len(op.over[0]) != 1:
        return None
    mask, ((dim,),) = reading.source(op.operands[0]), op.over
    made = reading.makers.get(mask)
    if (
        mask.dtype is not DType.I1
        or made is None
        or made.function not in (BinaryFn.LT, BinaryFn.LE)
    ):
        return None
    size = mask.shape[dim]
    for i, (places, number) in enumerate((made.operands, made.operands[::-1])):
        if spans(number, mask, dim) or number.dtype is not DType.I64:
            continue
        if are_places(reading, places, mask, dim):
            more = int((made.function is BinaryFn.LE) == (i == 0))  # j <= n: one more than j < n
            return _count(reading, number, more, size, op.results[0].shape, i == 1)
    return None


def _count(
    reading: Reading, number: Value, more: int, size: int, shape: tuple[int, ...], turned: bool
) -> Value:
    """Write the number of places below ``number + more``, or of the others."""

    def written(b: Builder) -> Value:
        n = b.broadcast(number, shape)
        low, high = b.constant(-more, n.dtype), b.constant(size - more, n.dtype)
        below = b.binary(BinaryFn.MIN, b.binary(BinaryFn.MAX, n, low), high)
        if turned:
            return b.binary(BinaryFn.SUB, high, below)
        return b.binary(BinaryFn.ADD, below, b.constant(more, n.dtype)) if more else below

    return reading.write(written)


def limits_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write limits of a whole number by constants, if they are in another order or
    there are several on one side; None for other ops."""
    if op.function not in (BinaryFn.MAX, BinaryFn.MIN):
        return None
    for x, limit in (op.operands, op.operands[::-1]):
        outer = reading.certain.number(limit)
        source = before_casts(reading, x)
        inner = reading.makers.get(source)
        if outer is None or outer.denominator != 1 or inner is None or not source.dtype.is_integer:
            continue
        if source.shape != op.results[0].shape:
            continue
        for y, other in (inner.operands, inner.operands[::-1]) if len(inner.operands) == 2 else ():
            bound = reading.certain.number(other)
            if bound is None or inner.function not in (BinaryFn.MAX, BinaryFn.MIN):
                continue
            if inner.function is op.function:
                end = max(bound, outer) if op.function is BinaryFn.MAX else min(bound, outer)
                return _limited_once(reading, op.function, y, int(end))
            if op.function is BinaryFn.MAX and outer <= bound:
                return _limited(reading, y, int(outer), int(bound))
    return None


def _limited_once(reading: Reading, fn: BinaryFn, x: Value, end: int) -> Value:
    return reading.write(lambda b: b.binary(fn, x, b.constant(end, x.dtype)))


def _limited(reading: Reading, x: Value, low: int, high: int) -> Value:
    """Write ``min(max(x, low), high)``, with one limit on each side."""
    made = reading.makers.get(x)
    if made is not None and made.function is BinaryFn.MAX:
        for y, other in (made.operands, made.operands[::-1]):
            bound = reading.certain.number(other)
            if bound is not None and bound.denominator == 1:
                x, low = y, max(low, int(bound))
                break

    def written(b: Builder) -> Value:
        above = b.binary(BinaryFn.MAX, x, b.constant(low, x.dtype))
        return b.binary(BinaryFn.MIN, above, b.constant(high, x.dtype))

    return reading.write(written)
