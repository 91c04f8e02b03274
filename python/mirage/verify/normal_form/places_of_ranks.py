"""The places of the largest elements of a row, and values that are written there.

``p[k] = max over j of (j where r[j] == k, else 0)`` is the place with rank ``k``, if each rank
belongs to one place. So ``p[k] == e`` is equivalent to ``r[e] == k``: values that are scattered to
the places of the first ``n`` ranks are kept where the rank is below ``n``. And where ``r[e] == k``,
the element with rank ``k`` is the one at ``e``.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value
from mirage.verify.normal_form.one_of_a_row import (
    are_places,
    before_reshape,
    keeps_one,
    masked,
    ranked_by,
    spans,
)
from mirage.verify.normal_form.ranks import Ranks, larger_before, ranks_of
from mirage.verify.normal_form.reading import Reading

_DEEPEST = 8  # functions of functions


def place_of_rank_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the condition that a place is that of a rank: that its rank is this one.
    None for other ops."""
    if op.function is not BinaryFn.EQ:
        return None
    shape = op.results[0].shape
    for place, number in (op.operands, op.operands[::-1]):
        total = source_op(reading, place)
        if not isinstance(total, Contraction) or len(total.over[0]) != 1:
            continue
        if total.function not in (ReduceFn.MAX, ReduceFn.SUM):
            continue
        parts, ((dim,),) = masked(reading, total.operands[0]), total.over
        if parts is None or parts[0].shape != shape or place.shape != total.results[0].shape:
            continue
        mask, places = parts
        ordered = all(are_places(reading, v, mask, dim) for v in (places, number))
        if ordered and keeps_one(reading, mask, dim):
            return mask
    return None


def first_ranks_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum over ``k`` of elements that are kept where a whole number ``r``
    equals ``k``, which counts from 0: it is the element where ``r`` is below the end. None for
    other ops."""
    if not isinstance(op, Contraction) or op.function is not ReduceFn.SUM or len(op.over[0]) != 1:
        return None
    ((dim,),), x = op.over, op.operands[0]
    mask, kept = reading.source(x), None
    if mask.dtype is not DType.I1:
        parts = masked(reading, x)
        if parts is None:
            return None
        mask, kept = parts
    if mask.shape != x.shape or (kept is not None and spans(kept, mask, dim)):
        return None
    first, result = below_the_end(reading, mask, dim), op.results[0]
    if first is None:
        return None
    if kept is None:
        return reading.write(lambda b: b.cast(first, result.dtype))
    return reading.write(lambda b: b.binary(BinaryFn.KEEP, first, kept))


def element_of_rank_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum over ``k`` of values that are kept where the rank of ``e`` is
    ``k``: with the element at ``e`` in place of the one that has rank ``k``. None for other
    ops."""
    if not isinstance(op, Contraction) or op.function is not ReduceFn.SUM or len(op.over[0]) != 1:
        return None
    ((dim,),), x = op.over, op.operands[0]
    parts = masked(reading, x)
    if parts is None or parts[0].shape != x.shape or not spans(parts[1], x, dim):
        return None
    mask, kept = parts
    own = [d for d in range(len(mask.shape)) if d != dim and keeps_one(reading, mask, d)]
    if len(own) != 1 or (ranked := ranked_by(reading, mask, own[0])) is None:
        return None
    at_place = _AtPlace(reading, mask, dim, own[0], ranked).of(kept)
    if at_place is None:
        return None

    made, divisor = reading.makers.get(at_place), None
    if made is not None and made.function is BinaryFn.DIV:
        # some element has the first rank, so a row is undefined where its common divisor is zero
        top, bottom = made.operands
        if top.shape == at_place.shape and not spans(bottom, mask, own[0]):
            at_place, divisor = top, bottom

    def written(b: Builder) -> Value:
        return b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, mask, at_place), (dim,))

    total = reading.makers[reading.write(written)]
    found = first_ranks_rule(reading, total) or total.results[0]
    if divisor is None:
        return found
    return reading.write(lambda b: b.binary(BinaryFn.DIV, found, divisor))


class _AtPlace:
    """The value at place ``e`` along ``own`` of a computation for each rank along ``dim``."""

    def __init__(
        self, reading: Reading, mask: Value, dim: int, own: int, ranked: tuple[Ranks, Value]
    ) -> None:
        self.reading, self.mask, self.dim, self.own, self.ranked = reading, mask, dim, own, ranked

    def of(self, x: Value) -> Value | None:
        """Return the value, or None if it is not known."""
        if not spans(x, self.mask, self.dim):
            return x
        op = self.reading.makers.get(x)
        if isinstance(op, Contraction) and op.function is ReduceFn.SUM:
            return self._element(op)
        if op is not None and op.renames:
            inner = before_reshape(self.reading, op)
            return None if inner is None else self.of(inner)
        if not isinstance(op, Elementwise) or not op.operands or op.cuts:
            return None
        operands = [self.of(v) for v in op.operands]
        some = tuple(v for v in operands if v is not None)
        return self.reading.apply(op, some) if len(some) == len(operands) else None

    def _element(self, op: Contraction) -> Value | None:
        """Return the element at the place, if ``op`` picks the element with the rank."""
        parts = masked(self.reading, op.operands[0])
        if parts is None or op.over != ((self.own,),) or parts[0].shape != self.mask.shape:
            return None
        mask, x = parts
        other = ranked_by(self.reading, mask, self.own)
        if other is None or not keeps_one(self.reading, mask, self.own):
            return None
        one = self.ranked[0]
        same = other[0].value is one.value and np.array_equal(other[0].at, one.at)
        ways = (one.largest_first, one.first_wins), (other[0].largest_first, other[0].first_wins)
        if not same or ways[0] != ways[1] or spans(x, self.mask, self.dim):
            return None
        first, second = (self.reading.elements(v) for v in (self.ranked[1], other[1]))
        if first is None or second is None:
            return None
        one_of, other_of = (np.broadcast_to(n, self._numbers) for n in (first, second))
        return x if np.array_equal(one_of, other_of) else None

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(1 if d == self.own else n for d, n in enumerate(self.mask.shape))


def kept_twice_rule(reading: Reading, op: Op) -> Value | None:
    """Return the operand of a mask that the same mask has already been applied to; None for other
    ops."""
    if op.function is not BinaryFn.KEEP or op.operands[1].shape != op.results[0].shape:
        return None
    inner = source_op(reading, op.operands[1])
    if inner is not None and inner.function is BinaryFn.DIV:
        inner = source_op(reading, inner.operands[0])  # zero over the divisor of a row
    if inner is None or inner.function is not BinaryFn.KEEP:
        return None
    outside, inside = op.operands[0], inner.operands[0]
    if outside.shape != op.results[0].shape or inside.shape != inner.results[0].shape:
        return None
    return op.operands[1] if _same_order(reading, outside, inside) else None


def _same_order(reading: Reading, x: Value, y: Value) -> bool:
    """Return whether two values have the same elements in the same order."""
    for_each: list[Value] = []
    for v in (x, y):
        while (op := reading.makers.get(v)) is not None and op.renames:
            v = op.operands[0]
        for_each.append(v)
    return for_each[0] is for_each[1]


def below_the_end(reading: Reading, mask: Value, dim: int) -> Value | None:
    """Return a truth value that is equivalent to ``mask`` being true somewhere along a dimension,
    if the mask is ``r == k`` and ``k`` counts from 0 along it: that ``r`` is below the end. None
    for other masks."""
    asked = reading.makers.get(mask)
    if asked is None or asked.function is not BinaryFn.EQ:
        return None
    shape = tuple(1 if d == dim else n for d, n in enumerate(mask.shape))
    for rank, number in (asked.operands, asked.operands[::-1]):
        if spans(rank, mask, dim) or not are_places(reading, number, mask, dim):
            continue
        if _is_count(reading, rank):
            rank = _as_written(reading, rank, mask, dim)
            return reading.write(lambda b, r=rank: _below(b, r, mask.shape[dim], shape))
    return None


def _as_written(reading: Reading, rank: Value, mask: Value, dim: int) -> Value:
    """Return ranks in one of the ways in which they can be written, if they are those of the
    elements in their order, the largest one first."""
    for own in range(len(mask.shape)):
        ranks = None if own == dim else ranks_of(reading, rank, mask, own)
        if ranks is None or not ranks.largest_first or not ranks.first_wins:
            continue
        x, shape = ranks.value, tuple(1 if d == dim else n for d, n in enumerate(mask.shape))
        numbers = np.broadcast_to(np.arange(x.type.size).reshape(shape), mask.shape)
        if x.type.size == np.prod(shape) and np.array_equal(numbers, ranks.at):
            return _written_ranks(reading, x, shape, own)
    return rank


def _written_ranks(reading: Reading, x: Value, shape: tuple[int, ...], own: int) -> Value:
    """Return how many elements along a dimension are larger than each, or equal and before it."""
    places, row = reading.places(shape[own]), reading.write(lambda b: b.reshape(x, shape))
    return reading.write(lambda b: b.reshape(larger_before(b, places, row, own), shape))


def sum_of_ranks_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum over ``k`` of values of the element with rank ``k``: as a sum over
    the elements, of those whose rank is below the end. None for other ops."""
    if not isinstance(op, Contraction) or op.function is not ReduceFn.SUM or len(op.over[0]) != 1:
        return None
    ((dim,),), x = op.over, op.operands[0]
    if (pick := _pick_in(reading, x, 0)) is None:
        return None
    mask, own = pick
    shape = tuple(1 if d == own else n for d, n in enumerate(mask.shape))
    if x.shape == shape[:own] + shape[own + 1 :]:
        along = dim if dim < own else dim + 1
    elif x.shape == shape and dim != own:
        along = dim
    else:
        return None
    if (ranked := ranked_by(reading, mask, own)) is None:
        return None
    wide = reading.write(lambda b: b.reshape(x, shape))
    at_place = _AtPlace(reading, mask, along, own, ranked).of(wide)
    first = None if at_place is None else below_the_end(reading, mask, along)
    if first is None or at_place is None or not spans(ranked[1], mask, along):
        return None

    def written(b: Builder) -> Value:
        kept = b.binary(BinaryFn.KEEP, first, at_place)
        return b.reshape(b.reduce(ReduceFn.SUM, kept, (own,)), op.results[0].shape)

    return reading.write(written)


def _pick_in(reading: Reading, x: Value, depth: int) -> tuple[Value, int] | None:
    """Return the mask of the first sum in ``x`` that picks an element, and its dimension."""
    op = reading.makers.get(x)
    if op is None or depth > _DEEPEST:
        return None
    if isinstance(op, Contraction):
        parts = masked(reading, op.operands[0]) if op.function is ReduceFn.SUM else None
        if parts is None or len(op.over[0]) != 1 or parts[0].shape != op.operands[0].shape:
            return None
        ((own,),) = op.over
        return (parts[0], own) if keeps_one(reading, parts[0], own) else None
    if not op.renames and not (isinstance(op, Elementwise) and not op.cuts):
        return None
    inside = (_pick_in(reading, v, depth + 1) for v in op.operands)
    return next((found for found in inside if found is not None), None)


def _below(b: Builder, rank: Value, end: int, shape: tuple[int, ...]) -> Value:
    first = b.binary(BinaryFn.LT, rank, b.constant(end, rank.dtype))
    return first if first.shape == shape else b.broadcast(first, shape)


def _is_count(reading: Reading, x: Value) -> bool:
    """Return whether the elements are whole numbers that are not negative."""
    op = source_op(reading, x)
    if isinstance(op, Contraction) and op.function is ReduceFn.SUM and len(op.operands) == 1:
        return reading.source(op.operands[0]).dtype is DType.I1
    return reading.is_whole(x) and reading.range(reading.source(x))[0] >= 0


def source_op(reading: Reading, x: Value) -> Op | None:
    """Return the op that computes the elements of ``x``, in the same order."""
    while (op := reading.makers.get(x)) is not None and (op.renames or is_cast(op)):
        x = op.operands[0]
    return op
