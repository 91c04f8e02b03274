"""One element of each row, selected by a comparison with its place and a sum.

``sum over j of (x[j] where j == t, else 0)`` is ``x[t]`` if ``t`` is one of the places: exactly one
element is kept. So picking from a function of elements is the same as applying the function to the
picked elements; values that are the same for the whole row do not change. A product with such truth
values picks the same element if all elements are numbers.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.bounds.integer_ranges import Range
from mirage.semantics.builder import Builder
from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value, View
from mirage.verify.normal_form.place_of_largest import keeps_largest
from mirage.verify.normal_form.ranks import Ranks, are_ranks, larger_before, places_of, ranks_of
from mirage.verify.normal_form.reading import Reading, repeats


def picked_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum over masked rows in which exactly one element is kept; None for
    other ops."""
    if op.function is not ReduceFn.SUM or not isinstance(op, Contraction):
        return None
    return picked(reading, op.operands[0], op.over[0])


def picked(reading: Reading, x: Value, dims: tuple[int, ...]) -> Value | None:
    """Return how to write the sum of masked rows over some dimensions, if exactly one element is
    kept along one of them."""
    parts = masked(reading, x)
    if parts is None:
        return None
    found = picked_sum(reading, *parts, dims) if parts[0].shape == x.shape else None
    return found or _of_whole_rows(reading, *parts, dims)


def _of_whole_rows(reading: Reading, mask: Value, x: Value, dims: tuple[int, ...]) -> Value | None:
    """Return how to write the sum of rows of which a mask keeps all or nothing, if exactly one
    element of each row is kept otherwise."""
    parts = masked(reading, x)
    if parts is None or parts[0].shape != x.shape:
        return None
    op = reading.makers.get(mask)
    if isinstance(op, View) and repeats(op):
        mask = op.operands[0]
    one = next((d for d in dims if keeps_one(reading, parts[0], d)), None)
    if one is None or spans(mask, x, one):
        return None
    found = picked_sum(reading, *parts, (one,))
    if found is None:
        return None
    shape = tuple(1 if d == one else n for d, n in enumerate(x.shape))
    rest = tuple(d for d in dims if d != one)
    kept = reading.write(lambda b: b.binary(BinaryFn.KEEP, mask, b.broadcast(found, shape)))
    return reading.write(lambda b: b.reduce(ReduceFn.SUM, kept, rest)) if rest else kept


def picked_sum(reading: Reading, mask: Value, x: Value, dims: tuple[int, ...]) -> Value | None:
    """Return how to write the sum over some dimensions of the elements that a mask keeps, if it
    keeps exactly one along one of them."""
    one = next((d for d in dims if keeps_one(reading, mask, d)), None)
    if one is None:
        return None
    found = Pick(reading, mask, one).of(x)
    rest = tuple(d for d in dims if d != one)
    if not rest:
        return found
    shape = tuple(1 if d == one else n for d, n in enumerate(mask.shape))
    wide = reading.write(lambda b: b.broadcast(found, shape))
    return reading.write(lambda b: b.reduce(ReduceFn.SUM, wide, rest))


def first_place_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write the place whose rank is the first: the first of the places at which the
    largest element is. None for other ops."""
    if op.function not in (ReduceFn.MAX, ReduceFn.SUM) or not isinstance(op, Contraction):
        return None
    parts = masked(reading, op.operands[0])
    if parts is None or len(op.over[0]) != 1:
        return None
    mask, places = parts
    ((dim,),) = op.over
    if mask.shape != op.operands[0].shape or not are_places(reading, places, mask, dim):
        return None
    if not keeps_one(reading, mask, dim):
        return None
    found = _end_of_ranks(reading, mask, dim)
    if found is None or found[1] or not found[0].largest_first or not found[0].first_wins:
        return None
    ranked = found[0].value
    if not np.array_equal(found[0].at.ravel(), np.arange(ranked.type.size)):
        return None  # not the elements in this order
    x = reading.write(lambda b: b.reshape(ranked, mask.shape))

    def written(b: Builder) -> Value:
        largest = b.binary(BinaryFn.EQ, x, b.reduce(ReduceFn.MAX, x, (dim,)))
        end = b.constant(mask.shape[dim] - 1, places.dtype)
        left = b.binary(BinaryFn.KEEP, largest, b.binary(BinaryFn.SUB, end, places))
        return b.binary(BinaryFn.SUB, end, b.reduce(ReduceFn.MAX, left, (dim,)))

    place = reading.write(written)
    reading.ranges[place] = 0.0, mask.shape[dim] - 1.0  # some element is the largest
    return place


def _end_of_ranks(reading: Reading, mask: Value, dim: int) -> tuple[Ranks, bool] | None:
    """Return the ranks of which a mask keeps the first or, if True, the last one."""
    op = reading.makers[mask]
    for places, number in (op.operands, op.operands[::-1]):
        low, high = _bounds(reading, number)
        if low != high or low not in (0, mask.shape[dim] - 1):
            continue
        ranks = ranks_of(reading, places, mask, dim)
        if ranks is not None:
            return ranks, low != 0
    return None


def _bounds(reading: Reading, x: Value) -> Range:
    """Return the least and the largest number that a value may be."""
    elements = reading.elements(x)
    if elements is None or not elements.size:
        return reading.range(reading.source(x))
    return float(elements.min()), float(elements.max())


def masked(reading: Reading, x: Value) -> tuple[Value, Value] | None:
    """Return the mask, and the values of which ``x`` keeps those where the mask is true."""
    op = reading.makers.get(reading.source(x))
    if op is None or len(op.operands) != 2:
        return None
    first, second = op.operands
    if op.function is BinaryFn.KEEP:
        return reading.source(first), second
    if op.function is BinaryFn.MUL:
        for mask, kept in ((first, second), (second, first)):
            source = reading.source(mask)
            if source.dtype is DType.I1 and reading.certain.is_finite(kept):
                return source, kept
    return None


def keeps_one(reading: Reading, mask: Value, dim: int) -> bool:
    """Return whether a truth value is true at exactly one place along a dimension: where the place,
    or its rank, equals a number that is one of the places."""
    op = reading.makers.get(mask)
    if op is None or op.function is not BinaryFn.EQ:
        return False
    count = mask.shape[dim]
    for places, number in (op.operands, op.operands[::-1]):
        if spans(number, mask, dim) or not _is_place(reading, number, mask, count):
            continue
        ordered = are_places(reading, places, mask, dim, in_order=False)
        if ordered or are_ranks(reading, places, mask, dim):
            return True
    return False


def _is_place(reading: Reading, number: Value, mask: Value, count: int) -> bool:
    """Return whether a number, an operand of ``mask``, is certainly one of so many places: by its
    range, or as a rank among as many elements."""
    low, high = reading.range(reading.source(number))
    if reading.is_whole(number) and low >= 0 and high < count:
        return True
    rows = (d for d, n in enumerate(mask.shape) if n == count and spans(number, mask, d))
    return any(are_ranks(reading, number, mask, d) for d in rows)


def spans(x: Value, whole: Value, dim: int) -> bool:
    """Return whether an operand has several elements along a dimension of the result ``whole``."""
    at = dim - len(whole.shape) + len(x.shape)
    return at >= 0 and x.shape[at] != 1


def are_places(
    reading: Reading, x: Value, whole: Value, dim: int, *, in_order: bool = True
) -> bool:
    """Return whether an operand has the numbers of all places along a dimension, each of them
    once."""
    elements = reading.elements(reading.source(x))
    if elements is None or not spans(x, whole, dim):
        return False
    at = dim - len(whole.shape) + len(x.shape)
    shape = tuple(-1 if d == at else 1 for d in range(len(x.shape)))
    if not in_order:
        elements = np.sort(elements, at)
    return bool((elements == np.arange(x.shape[at]).reshape(shape)).all())


class Pick:
    """The selection by ``mask`` along ``dim``: one element of each row."""

    def __init__(self, reading: Reading, mask: Value, dim: int) -> None:
        self.reading, self.mask, self.dim = reading, mask, dim
        self.known: dict[Value, Value] = {}
        self.end = _end_of_ranks(reading, mask, dim)
        self.ranked = ranked_by(reading, mask, dim)

    def of(self, x: Value) -> Value:
        """Return the selected elements of ``x``, whose leading dimensions may be missing."""
        if not spans(x, self.mask, self.dim):
            return x
        if x not in self.known:
            self.known[x] = self._of(x)
        return self.known[x]

    def _of(self, x: Value) -> Value:
        reading = self.reading
        if (extreme := self._extreme(x)) is not None:
            return extreme
        if self.ranked is not None and _has_elements(reading, x, self.ranked[0], self.mask):
            return self._of_rank(x, *self.ranked)
        op = reading.makers.get(x)
        if op is not None and op.renames and (inner := before_reshape(reading, op)) is not None:
            return self.of(inner)
        if isinstance(op, View) and repeats(op) and not self._stays(op.operands[0]):
            return op.operands[0]
        computed = isinstance(op, Elementwise) and op.operands and not op.cuts
        if op is not None and computed and self._are_numbers(op):
            return reading.apply(op, tuple(self.of(v) for v in op.operands))
        kept = reading.write(lambda b: b.binary(BinaryFn.KEEP, self.mask, x))
        return reading.write(lambda b: b.reduce(ReduceFn.SUM, kept, (self.dim,)))

    def _extreme(self, x: Value) -> Value | None:
        """Return the largest or the smallest element, if ``x`` has the elements that are ranked,
        and the first or the last of them is kept, or if the place of the largest one is."""
        turned = False
        if self.end is not None and _has_elements(self.reading, x, self.end[0], self.mask):
            ranks, last = self.end
            turned = ranks.largest_first == last
        elif not keeps_largest(self.reading, x, self.mask, self.dim):
            return None

        def written(b: Builder) -> Value:
            wide = b.broadcast(x, self.mask.shape)
            most = b.reduce(ReduceFn.MAX, b.unary(UnaryFn.NEG, wide) if turned else wide, dims)
            return b.unary(UnaryFn.NEG, most) if turned else most

        dims = (self.dim,)
        return self.reading.write(written)

    def _of_rank(self, x: Value, ranks: Ranks, number: Value) -> Value:
        """Return the elements of ``x``, which are ranked, that have a rank: the number of larger
        ones. Neither the order of the elements nor that of equal elements makes a difference."""
        n, x = self.mask.shape[self.dim], self._in_any_order(x)

        def written(b: Builder) -> Value:
            own = self.dim - len(self.mask.shape) + len(x.shape)
            asked = number if number.dtype is DType.I64 else b.cast(number, DType.I64, whole=True)
            if not ranks.largest_first:
                asked = b.binary(BinaryFn.SUB, b.constant(n - 1, DType.I64), asked)
            rank = b.reshape(larger_before(b, places, x, own), x.shape)
            mask = b.binary(BinaryFn.EQ, rank, asked)
            return b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, mask, x), (self.dim,))

        places = self.reading.places(n)
        return self.reading.write(written)

    def _in_any_order(self, x: Value) -> Value:
        """Return the value of which ``x`` has the elements of each row in another order, or
        ``x``."""
        found, own = places_of(self.reading, x), self.dim - len(self.mask.shape) + len(x.shape)
        if found is None or found[0].type.size != x.type.size:
            return x
        source, at = found
        usual = np.arange(source.type.size, dtype=np.float64).reshape(x.shape)
        if np.array_equal(at, usual) or not np.array_equal(np.sort(at, own), usual):
            return x
        return self.reading.write(lambda b: b.reshape(source, x.shape))

    def _are_numbers(self, op: Op) -> bool:
        """Return whether all operands can be summed: truth values cannot, and do not change."""
        return all(v.dtype is not DType.I1 or not self._stays(v) for v in op.operands)

    def _stays(self, v: Value) -> bool:
        return spans(v, self.mask, self.dim)


def ranked_by(reading: Reading, mask: Value, dim: int) -> tuple[Ranks, Value] | None:
    """Return the ranks that a mask compares, and the number of the rank that it keeps."""
    op = reading.makers[mask]
    for places, number in (op.operands, op.operands[::-1]):
        if not spans(number, mask, dim):
            ranks = ranks_of(reading, places, mask, dim)
            if ranks is not None:
                return ranks, number
    return None


def _has_elements(reading: Reading, x: Value, ranks: Ranks, mask: Value) -> bool:
    """Return whether ``x`` has, at each place, the element with the rank at that place."""
    viewed = places_of(reading, x)
    if viewed is None or viewed[0] is not ranks.value:
        return False
    return np.array_equal(np.broadcast_to(viewed[1], mask.shape), ranks.at)


def before_reshape(reading: Reading, view: Op) -> Value | None:
    """Write a reshape of a function of elements as the function of reshaped elements, if the
    reshape only adds or drops dimensions of size 1."""
    x = view.operands[0]
    op = reading.makers.get(x)
    dims = unit_free_dims(x.shape, view.results[0].shape)
    if not isinstance(op, Elementwise) or not op.operands or op.cuts or dims is None:
        return None
    if {d for d in range(len(x.shape)) if x.shape[d] != 1} - set(dims.values()):
        return None
    operands: list[Value] = []
    for v in op.operands:
        lead = len(x.shape) - len(v.shape)
        sizes = (1,) * lead + v.shape
        shape = tuple(sizes[dims[d]] if d in dims else 1 for d in range(len(view.results[0].shape)))
        if v.shape == () or v.shape == shape:
            operands.append(v)
        else:
            operands.append(reading.write(lambda b, v=v, shape=shape: b.reshape(v, shape)))
    return reading.apply(op, tuple(operands))
