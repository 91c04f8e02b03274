"""Rows of ops that depend on order: sorting, the largest elements, and counts of elements by size.

The rank of an element is the number of elements that precede it: a count of comparisons, one for
each pair. The element with rank ``r`` is the sum over all elements that have this rank, of which
there is exactly one. So an order consists of comparisons and sums, and nothing is stored by index.
Many long lines are sorted (:mod:`mirage.semantics.argsort`), and their elements looked up.
Equal elements keep their order: ``sort(stable=True)`` promises this, and it is one of the results
that ``topk`` and other sorts may give. NaN is larger than any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mirage.frontend.torch_import.rows.elements.comparisons import choose, truth
from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.movement.indexing import elements_along
from mirage.frontend.torch_import.rows.movement.several_indices import is_moved_by_formulas
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.argsort import argsort
from mirage.semantics.builder import normalize_dims
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Elementwise, Value, View

MOST_RANKED = 1 << 26
"""The most pairs of elements that are compared to rank all of them."""
MOST_IN_LINE = 1 << 12
"""The most elements of one line that are ranked: sums of their positions are exact in f32. A block
can also sort this many."""
FEW_PAIRS = 1 << 22
"""The most pairs that are compared; with more, each line is sorted."""


def _sort(b: Lowering, c: Call) -> list[Value]:
    """``op(x, dim, descending)`` or ``op(x, stable, dim, descending)``: values and indices."""
    first = 2 if c.op == "aten.sort.stable" else 1
    return _ordered(b, c, c.integer(first), None, bool(c.arg(first + 1, False)))


def _topk(b: Lowering, c: Call) -> list[Value]:
    """``op(x, k, dim, largest, sorted)``: values and indices, always sorted."""
    return _ordered(b, c, c.integer(2), c.integer(1), bool(c.arg(3, True)))


def _ordered(b: Lowering, c: Call, dim: int, count: int | None, descending: bool) -> list[Value]:
    """Return the first ``count`` elements (all for None) of each line along ``dim``, and their
    places."""
    x = c.value(0)
    if not x.shape or x.type.size == 0:
        raise Unsupported("an order of no elements, or of one without a dimension")
    (dim,) = normalize_dims((dim,), len(x.shape))
    size = x.shape[dim]
    count = size if count is None else count
    if _is_sorted(b, x, size):
        places = argsort(b, x, dim, count, descending=descending)
        found = [elements_along(b, x, dim, places), places]
        b.orders[places] = x, dim, found[0]
        return found
    if size > MOST_IN_LINE or x.type.size * size > MOST_RANKED:
        lines = x.type.size // size
        raise Unsupported(f"an order of {size} elements, in {lines} lines, is not made of pairs")
    line = _line(b, b.swapped(x, dim, -1))
    rank = _ranks(b, line, descending)
    wanted = b.typed(iota(b, (count,), 0), DType.F32)
    here = b.reshape(rank, (*rank.shape[:-1], 1, size))
    has = b.binary(BinaryFn.EQ, here, b.reshape(wanted, (count, 1)))
    places = b.binary(BinaryFn.KEEP, has, b.typed(iota(b, (size,), 0), DType.F32))
    # unlike a sum, the maximum is known to be at most the largest place
    places = b.typed(b.reduced(ReduceFn.MAX, places, (-1,), False), DType.I64)
    if count == size and line.dtype.is_integer and is_moved_by_formulas(b, line):
        values = elements_along(b, line, len(line.shape) - 1, places)
    else:
        values = _picked(b, has, b.reshape(line, here.shape))
    values = truth(b, values) if x.dtype is DType.I1 else b.typed(values, x.dtype)
    found = [b.swapped(v, dim, -1) for v in (values, places)]
    b.orders[found[1]] = x, dim, found[0]
    return found


def _is_sorted(b: Lowering, x: Value, size: int) -> bool:
    """Return whether lines of ``size`` elements are sorted rather than ranked by pairs. Programs
    without calls keep the pairs, which proofs know."""
    many = x.type.size * size > FEW_PAIRS and size <= MOST_IN_LINE
    return many and not b.sized and is_moved_by_formulas(b, x) and x.dtype is not DType.I1


def _line(b: Lowering, x: Value) -> Value:
    """Return ``x``, or a tensor with the same order: integers become floats if these represent them
    (kernels compute with floats), and otherwise have the type of their sums."""
    if not x.dtype.is_integer:
        return x
    small = max(map(abs, b.range_of(x))) <= MAX_POSITIONS
    return b.typed(x, DType.F32 if small else DType.I64)


def _ranks(b: Lowering, x: Value, descending: bool) -> Value:
    """Return how many elements of its line precede each element of ``x[..., i]``, in f32."""
    size = x.shape[-1]
    mine, other = (b.reshape(x, (*x.shape[:-1], *pair)) for pair in ((size, 1), (1, size)))
    row, col = b.grid(size, size)
    earlier = b.binary(BinaryFn.LT, col, row)
    low, high = (mine, other) if descending else (other, mine)
    if is_number(b, x):
        less = b.binary(BinaryFn.LT, low, high)
        at_most = b.binary(BinaryFn.LE, low, high)
        before = b.binary(BinaryFn.OR, less, b.binary(BinaryFn.AND, earlier, at_most))
    else:
        # NaN is not equal to itself, and neither below nor equal to any number.
        less, more = _less(b, low, high), _less(b, high, low)
        level = b.unary(UnaryFn.NOT, more)
        before = b.binary(BinaryFn.OR, less, b.binary(BinaryFn.AND, earlier, level))
    count = b.typed(before, DType.F32)
    return b.reduced(ReduceFn.SUM, count, (-1,), False)


def _less(b: Lowering, x: Value, y: Value) -> Value:
    """Return whether ``x`` is a number that is not at least ``y``, which may be NaN."""
    number = b.binary(BinaryFn.EQ, x, x)
    return b.binary(BinaryFn.AND, number, b.unary(UnaryFn.NOT, b.binary(BinaryFn.LE, y, x)))


def _picked(b: Lowering, has: Value, x: Value) -> Value:
    """Return the elements of ``x`` with the wanted ranks, ``[..., rank]``."""
    return b.reduced(ReduceFn.SUM, b.binary(BinaryFn.KEEP, has, x), (-1,), False)


def _at_rank(rank: Callable[[Call, int], int]) -> Row:
    """``op(x, …, dim, keepdim)``: the element of each line that has that rank, and its place."""

    def row(b: Lowering, c: Call) -> list[Value]:
        x = c.value(0)
        dim = c.integer(len(c.args) - 2)
        if not x.shape:
            return [x, b.constant(0, DType.I64)]
        (dim,) = normalize_dims((dim,), len(x.shape))
        place = rank(c, x.shape[dim])
        if not 0 <= place < x.shape[dim]:
            raise Unsupported(f"element {place} of {x.shape[dim]} in order")
        return [b.reshaped(v, c.result.shape) for v in _ranked(b, x, dim, lambda _: place)]

    return row


def _median(*, ignored: bool) -> Row:
    """``op(x)`` or ``op(x, dim, keepdim)``: the lower of two elements in the middle. A NaN is the
    median if there is one or, with ``ignored``, does not count unless all elements are NaN."""

    def row(b: Lowering, c: Call) -> list[Value]:
        x = c.value(0)
        if not x.shape:
            return [x, b.constant(0, DType.I64)]
        whole = len(c.args) == 1
        x = b.reshaped(x, (x.type.size,)) if whole else x
        (dim,) = normalize_dims((0 if whole else c.integer(1),), len(x.shape))

        def middle(line: Value) -> Value | int:
            size = line.shape[-1]
            if is_number(b, line):
                return (size - 1) // 2
            number = b.cast(b.binary(BinaryFn.EQ, line, line), DType.F32)
            count = b.reduce(ReduceFn.SUM, number, (-1,))
            if not ignored:  # the first NaN comes after all numbers
                all_are = b.combine(BinaryFn.EQ, count, size)
                return choose(b, all_are, (size - 1) // 2, count, DType.F32)
            half = b.combine(BinaryFn.MUL, b.combine(BinaryFn.SUB, count, 1.0), 0.5)
            return b.combine(BinaryFn.MAX, b.unary(UnaryFn.FLOOR, half), 0.0)

        found = _ranked(b, x, dim, middle)
        return [b.reshaped(v, c.result.shape) for v in (found[:1] if whole else found)]

    return row


def _ranked(b: Lowering, x: Value, dim: int, rank: Callable[[Value], Value | int]) -> list[Value]:
    """Return the element with that rank from each line along ``dim``, and its place; ``rank`` may
    depend on the line, which keeps size 1."""
    size = x.shape[dim]
    if _is_sorted(b, x, size):
        wanted = rank(b.swapped(x, dim, -1))
        if isinstance(wanted, int):
            place = b.cut(argsort(b, x, dim, wanted + 1), dim, wanted, 1)
        else:
            inside = b.combine(BinaryFn.MIN, b.swapped(wanted, dim, -1), float(size - 1))
            wanted = b.typed(inside, DType.I64)
            place = elements_along(b, argsort(b, x, dim), dim, wanted)
        return [elements_along(b, x, dim, place), place]
    if size > MOST_IN_LINE or not 0 < x.type.size * size <= MOST_RANKED:
        raise Unsupported(f"an order of {size} elements of {x.type} is not made of pairs")
    line = _line(b, b.swapped(x, dim, -1))
    has = b.combine(BinaryFn.EQ, _ranks(b, line, False), rank(line))
    places = b.typed(iota(b, (size,), 0), DType.F32)
    found = [b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, has, v), (-1,)) for v in (line, places)]
    value = truth(b, found[0]) if x.dtype is DType.I1 else b.typed(found[0], x.dtype)
    return [b.swapped(v, dim, -1) for v in (value, b.typed(found[1], DType.I64))]


def _most_frequent(b: Lowering, c: Call) -> list[Value]:
    """``op(x, dim, keepdim)``: the least of the most frequent elements of each line, and its last
    place. NaN equals no element."""
    x = c.value(0)
    if not x.shape:
        return [x, b.constant(0, DType.I64)]
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    size = x.shape[dim]
    if size > MOST_IN_LINE or not 0 < x.type.size * size <= MOST_RANKED or x.dtype is DType.I1:
        raise Unsupported(f"counts of {size} equal elements of {x.type}")
    line = _line(b, b.swapped(x, dim, -1))
    if line.dtype.is_integer:
        raise Unsupported("counts of integers that f32 does not hold")
    mine, other = (b.reshape(line, (*line.shape[:-1], *pair)) for pair in ((size, 1), (1, size)))
    count = b.reduced(
        ReduceFn.SUM, b.typed(b.binary(BinaryFn.EQ, mine, other), DType.F32), (-1,), False
    )
    often = b.binary(BinaryFn.EQ, count, b.reduce(ReduceFn.MAX, count, (-1,)))
    below = choose(b, often, b.unary(UnaryFn.NEG, line), -math.inf, line.dtype)
    least = b.unary(UnaryFn.NEG, b.reduce(ReduceFn.MAX, below, (-1,)))
    same = b.binary(BinaryFn.EQ, line, least)
    place = b.typed(iota(b, (size,), 0), DType.F32)
    last = b.reduce(ReduceFn.MAX, b.binary(BinaryFn.KEEP, same, place), (-1,))
    found = b.typed(least, x.dtype), b.typed(last, DType.I64)
    return [b.reshaped(b.swapped(v, dim, -1), c.result.shape) for v in found]


def _histogram(b: Lowering, c: Call) -> Value:
    """``op(x, bins, min, max)`` of whole numbers, between whole limits: bin ``i`` counts the
    numbers from ``min + i * (max - min) / bins`` up to the start of the next bin; the last bin
    includes ``max``."""
    x, bins, low, high = c.value(0), c.integer(1), c.number(2, 0), c.number(3, 0)
    if not -MAX_POSITIONS <= low < high <= MAX_POSITIONS:
        raise Unsupported(f"a histogram from {float(low):g} to {float(high):g}")
    if low != int(low) or high != int(high) or not _is_whole(b, x):
        raise Unsupported("a histogram of fractions")
    width = int(high) - int(low)
    edges = [int(low) + -(-i * width // bins) for i in range(bins)]
    if bins * width > MAX_POSITIONS or bins * x.type.size > MOST_RANKED:
        raise Unsupported(f"a histogram of {x.type.size} numbers in {bins} bins of {width}")
    line = b.reshaped(_line(b, x), (1, x.type.size))
    number = iota(b, (bins,), 0)
    if edges == [edges[0] + i for i in range(bins)] and edges[-1] == high:
        each = b.combine(BinaryFn.ADD, number, edges[0]) if edges[0] else number
        hit = b.binary(BinaryFn.EQ, line, _column(b, each, line.dtype))
    else:
        begin, end = (_edges(b, number, bins, width, int(low), next_) for next_ in (0, 1))
        from_ = b.binary(BinaryFn.LE, _column(b, begin, line.dtype), line)
        last = b.combine(BinaryFn.EQ, number, bins - 1)
        end = b.binary(BinaryFn.ADD, end, b.typed(last, DType.I64))  # it includes the limit
        below = b.binary(BinaryFn.LT, line, _column(b, end, line.dtype))
        hit = b.binary(BinaryFn.AND, from_, below)
    return b.reduced(ReduceFn.SUM, b.typed(hit, DType.F32), (-1,), False)


def _edges(b: Lowering, number: Value, bins: int, width: int, low: int, next_: int) -> Value:
    """Return the start of each bin, or of its successor (``next_``): the least whole number in
    it."""
    x = b.combine(BinaryFn.MUL, number, width)
    x = b.combine(BinaryFn.ADD, x, next_ * width + bins - 1)
    return b.combine(BinaryFn.ADD, b.combine(BinaryFn.FLOOR_DIV, x, bins), low)


def _column(b: Lowering, x: Value, dtype: DType) -> Value:
    """Return positions as a column, in the type of the numbers that they are compared with."""
    x = b.reshape(x, (x.type.size, 1))
    return x if dtype.is_integer else b.typed(x, dtype)


def _is_whole(b: Lowering, x: Value) -> bool:
    """Return whether all elements of ``x`` are known to be whole numbers."""
    made = {v: op for op in b.ops for v in op.results}
    op = made.get(x)
    while isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
        x = op.operands[0]
        op = made.get(x)
    return is_number(b, x)


def is_number(b: Lowering, x: Value) -> bool:
    """Return whether no element of ``x`` can be NaN or infinite: integers cannot, nor can floats
    that are known to be whole."""
    return x.dtype.is_integer or not any(map(math.isinf, b.range_of(x)))


RANKING: dict[str, Row] = {
    "aten.topk": _topk,
    "aten.sort": _sort,
    "aten.sort.stable": _sort,
    "aten.kthvalue": _at_rank(lambda c, size: c.integer(1) - 1),
    "aten.median": _median(ignored=False),
    "aten.median.dim": _median(ignored=False),
    "aten.nanmedian": _median(ignored=True),
    "aten.nanmedian.dim": _median(ignored=True),
    "aten.mode": _most_frequent,
    "aten.histc": _histogram,
}
"""Torch ops that order, and count by size."""
