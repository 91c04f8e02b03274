"""Ranks: the number of elements of a row that come before each element, in a strict order.

A comparison of two elements that also compares their places if they are equal is a strict order of
the elements of a row: then each rank from 0 on belongs to exactly one of them. To decide whether a
comparison is strict, it is computed for each way in which two elements may compare: the larger one
must always come first (or last), and of two equal elements the one with the smaller (larger) place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.ops.kinds import Lookup, is_cast
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value, View
from mirage.verify.normal_form.reading import Reading

_MOST = 1 << 20
"""The most pairs of elements that are examined."""
_COMPARED = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)


@dataclass(frozen=True)
class Ranks:
    """Ranks along a dimension; ``at`` has, for each of them, the place in ``value`` of the element
    whose rank it is. The rank 0 is that of the largest element, or of the smallest one; of equal
    elements, the one in the first place comes first, or the one in the last place."""

    value: Value
    at: Array
    largest_first: bool
    first_wins: bool


def are_ranks(reading: Reading, x: Value, whole: Value, dim: int) -> bool:
    """Return whether ``x``, an operand of ``whole``, has each rank from 0 on exactly once along
    ``dim``, for any indices of the other dimensions."""
    return ranks_of(reading, x, whole, dim) is not None


def ranks_of(reading: Reading, x: Value, whole: Value, dim: int) -> Ranks | None:
    """Return the elements whose ranks ``x`` has, if it has each rank from 0 on exactly once."""
    views: list[Op] = []
    while (op := reading.makers.get(x)) is not None and _is_seen_through(op):
        views.insert(0, op)
        x = op.operands[0]
    total = reading.makers.get(x)
    if total is None or total.function is not ReduceFn.SUM or not isinstance(total, Contraction):
        return None
    before = reading.source(total.operands[0])
    if len(total.over[0]) != 1 or before.type.size > _MOST or whole.type.size > _MOST:
        return None
    ((along,),) = total.over
    at = np.arange(x.type.size, dtype=np.float64).reshape(x.shape)
    seen = _viewed(at, views)
    for own in range(len(before.shape)):
        alike = own != along and before.shape[own] == before.shape[along]
        if not alike or not _is_each_once(seen, at, whole, dim, own):
            continue
        order = _Order(reading, before, own, along)
        if order.is_strict():
            own_at = order.ranked[1].take([0], along).reshape(-1)
            places = np.broadcast_to(own_at[seen.astype(int)], whole.shape)
            return Ranks(order.ranked[0], places, order.largest_first, order.first_wins)
    return None


def places_of(reading: Reading, x: Value) -> tuple[Value, Array] | None:
    """Return the value of which ``x`` is a view, or parts that are joined (a roll), and the place
    of each element in that value."""
    op = reading.makers.get(x)
    if op is not None and op.joined_along is not None:
        parts = [places_of(reading, v) for v in op.operands]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and len({id(source) for source, _ in known}) == 1:
            (at,) = op.compute(Float64(), [(part,) for _, part in known], 0, x.shape)
            return known[0][0], at
    elif op is not None:
        rows = _known_rows(reading, op)
        if _is_seen_through(op) or rows is not None:
            found = places_of(reading, op.operands[0])
            if found is None:
                return None
            source, at = found
            return source, _viewed(at, [op]) if rows is None else at[rows]
    if x.type.size > _MOST:
        return None
    return x, np.arange(x.type.size, dtype=np.float64).reshape(x.shape)


def _known_rows(reading: Reading, op: Op) -> Array | None:
    """Return the rows that a lookup takes, if these are known and exist."""
    if not isinstance(op, Lookup) or len(op.operands) != 2:
        return None
    table, index = op.operands
    rows = reading.elements(index)
    if rows is None or table.type.size > _MOST or op.results[0].type.size > _MOST:
        return None
    known = ((rows >= 0) & (rows < table.shape[0])).all()
    return rows.astype(int) if known else None


def _is_seen_through(op: Op) -> bool:
    return isinstance(op, View) or is_cast(op)


def _viewed(x: Array, views: list[Op]) -> Array:
    for op in views:
        if isinstance(op, View):
            (x,) = op.compute(Float64(), [(x,)], 0, op.results[0].shape)
    return x


def _is_each_once(seen: Array, at: Array, whole: Value, dim: int, own: int) -> bool:
    """Return whether the elements along ``dim`` are all elements of one row along ``own``, each of
    them once."""
    rows = np.moveaxis(at, own, -1).reshape(-1, at.shape[own])
    row_of = np.empty(at.size, int)
    row_of[rows.astype(int).ravel()] = np.repeat(np.arange(len(rows)), rows.shape[1])
    found = np.moveaxis(np.broadcast_to(seen, whole.shape), dim, -1).astype(int)
    if found.shape[-1] != rows.shape[1]:
        return False
    same = (row_of[found] == row_of[found[..., :1]]).all()
    return bool(same and (np.diff(np.sort(found, -1), axis=-1) > 0).all())


class _Order:
    """A truth value of two elements of a row; ``own`` and ``along`` hold their places."""

    def __init__(self, reading: Reading, before: Value, own: int, along: int) -> None:
        self.reading, self.before = reading, before
        self.own, self.along = own, along
        self._ranked: dict[Value, Array] = {}
        self.largest_first = self.first_wins = False

    @property
    def ranked(self) -> tuple[Value, Array]:
        """The value whose elements are compared, and the place of each pair's own element."""
        return next(iter(self._ranked.items()))

    def is_strict(self) -> bool:
        """Return whether it is a strict order of all elements: by their numbers, then by their
        places."""
        ways = [self._computed(self.before, sign, {}) for sign in (-1, 0, 1)]
        less, equal, more = (None if w is None else self._pairs(w) for w in ways)
        if less is None or equal is None or more is None:
            return False
        if len(self._ranked) != 1:
            return False
        self.largest_first = bool(less.all())
        one_way = (less.all() and not more.any()) or (more.all() and not less.any())
        places = np.arange(equal.shape[-1])
        first = places[None, :] < places[:, None]
        self.first_wins = bool((equal == first).all())
        return bool(one_way and ((equal == first).all() or (equal == first.T).all()))

    def _pairs(self, x: Array) -> Array:
        """Return truth values for each pair, by the element itself and then by the other one."""
        whole = np.broadcast_to(x, self.before.shape) != 0
        return np.moveaxis(whole, (self.own, self.along), (-2, -1))

    def _computed(self, x: Value, sign: int, known: dict[Value, Array | None]) -> Array | None:
        """Return the result for an element that compares with the other one by ``sign``."""
        if x not in known:
            known[x] = self._of(x, sign, known)
        return known[x]

    def _of(self, x: Value, sign: int, known: dict[Value, Array | None]) -> Array | None:
        elements = self.reading.elements(x)
        if elements is not None:
            return elements
        op = self.reading.makers.get(x)
        if op is None or not isinstance(op, Elementwise | View):
            return None
        if op.function in _COMPARED:
            compared = self._compared(op, sign)
            if compared is not None:
                return compared
        xs = [self._computed(v, sign, known) for v in op.operands]
        if any(v is None for v in xs):
            return None
        (found,) = op.compute(Float64(), [(v,) for v in xs if v is not None], 0, x.shape)
        return found

    def _compared(self, op: Op, sign: int) -> Array | None:
        """Return the result of a comparison of elements of one value with each other, or with
        themselves."""
        sides = [places_of(self.reading, v) for v in op.operands]
        if sides[0] is None or sides[1] is None or sides[0][0] is not sides[1][0]:
            return None
        shape = op.results[0].shape
        if len(shape) != len(self.before.shape):
            return None
        first, second = (np.broadcast_to(s[1], shape) for s in sides if s is not None)
        if (first == second).all():
            order = 0
        else:
            if first.shape[self.own] != first.shape[self.along]:
                return None
            side = self._side(first, second)
            if side == 0:
                return None
            order = side * sign
            own = np.broadcast_to(first if side > 0 else second, self.before.shape)
            known = self._ranked.setdefault(sides[0][0], own)
            if not (known == own).all():
                return None
        number = np.array(float(order))
        (found,) = op.compute(Float64(), [(number,), (np.array(0.0),)], 0, ())
        return np.broadcast_to(found, shape)

    def _side(self, first: Array, second: Array) -> int:
        """Return 1 if the first operand is the element itself and the second is the other one, -1
        in the opposite case, and otherwise 0."""
        for sign, (own, other) in zip((1, -1), permutations((first, second)), strict=True):
            mirrored = np.swapaxes(own, self.own, self.along)
            constant = (own == own.take([0], self.along)).all()
            if constant and (mirrored == other).all():
                return sign
        return 0


def larger_before(b: Builder, places: Value, x: Value, dim: int) -> Value:
    """Write how many elements along a dimension are larger than each, or equal and before it."""
    front, n, back = x.shape[:dim], x.shape[dim], x.shape[dim + 1 :]
    own, other = (b.reshape(x, (*front, *sizes, *back)) for sizes in ((n, 1), (1, n)))
    ones = (1,) * len(back)
    at, before = (b.reshape(places, (*sizes, *ones)) for sizes in ((n, 1), (1, n)))
    first = b.binary(BinaryFn.LT, before, at)
    equal = b.binary(BinaryFn.AND, b.binary(BinaryFn.EQ, own, other), first)
    larger = b.binary(BinaryFn.OR, b.binary(BinaryFn.LT, own, other), equal)
    return b.reduce(ReduceFn.SUM, b.cast(larger, DType.I64), (dim + 1,))
