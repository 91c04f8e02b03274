"""Rows of scans along a dimension: sums, products and maxima of all elements up to each one.

A running sum of floats is one op if a block can hold the row. A longer row is computed in blocks:
the running sum of each block, plus the sum of all blocks before it, which is a running sum itself
(G. E. Blelloch, Prefix sums and their applications, 1990). Maxima and products are computed in the
same way. Products of zeros and ones are made of maxima.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.indexing import MOST_COMPARED, turned_around
from mirage.frontend.torch_import.rows.reductions.reductions import flipped, is_largest
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.ops.cumulation import COMBINED, NOTHING
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

LARGE = 1e38
"""The number that replaces infinity where a difference is taken."""
LONGEST, BLOCK = 4096, 128
"""The most elements of a row that one block scans, and the least number of elements of the blocks
of a longer row; the largest number that divides the size is chosen."""
COLUMNS = 4
"""The factor by which blocks are shorter if neighbours in memory belong to different rows: tiles of
several rows are read and written in whole sectors."""


_REDUCED = {CumulateFn.SUM: ReduceFn.SUM, CumulateFn.MAX: ReduceFn.MAX}
"""The functions by which a kernel also reduces a whole dimension."""


@dataclass(frozen=True)
class Way:
    """How the elements of a row are scanned: with this function, from the last to the first if
    ``reversed``, and without the element itself if ``exclusive``."""

    fn: CumulateFn
    reversed: bool
    exclusive: bool = False


def _running_sum(b: Lowering, c: Call) -> Value:
    """``op(x, dim, dtype)``. Sums of whole numbers that f32 represents, such as counts of tokens,
    are computed in f32; those of other integers are one op. A flipped tensor is summed from the
    other end."""
    x, dtype = c.value(0), c.result.dtype
    if not x.shape:
        return b.typed(x, dtype)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    x, turned = b.turned.get(x, (x, frozenset[int]()))
    small = x.shape[dim] * max(map(abs, b.range_of(x))) <= MAX_POSITIONS
    if dtype.is_integer:
        x = b.typed(x, DType.F32 if small else DType.I64)
    else:
        x = wide(b, b.typed(x, dtype))
    y = b.typed(_running(b, CumulateFn.SUM, x, dim, dim in turned), dtype)
    return turned_around(b, y, turned)


def _running(b: Lowering, fn: CumulateFn, x: Value, dim: int, reversed: bool = False) -> Value:
    """Return the sum, the product or the largest of all elements up to each one along ``dim``, or
    from each one on."""
    way = Way(fn, reversed)
    return _of_row(b, way, x, dim) if x.dtype.is_integer else _in_blocks(b, way, x, dim)


def _of_row(b: Lowering, way: Way, x: Value, dim: int) -> Value:
    """Scan rows that a block can hold."""
    if x.shape[dim] > 1:
        return b.cumulate(way.fn, x, dim, exclusive=way.exclusive, reversed=way.reversed)
    return b.filled(NOTHING[way.fn], x.type) if way.exclusive else x


def _in_blocks(b: Lowering, way: Way, x: Value, dim: int) -> Value:
    """Scan a dimension, block by block. The last block may be shorter."""
    size = x.shape[dim]
    if size <= LONGEST:
        return _of_row(b, way, x, dim)
    most = LONGEST if dim == len(x.shape) - 1 else max(BLOCK, LONGEST // COLUMNS)
    length = next((n for n in range(most, BLOCK - 1, -1) if size % n == 0), most)
    if size % length:
        return _in_two(b, way, x, dim, size - size % length, length)
    blocks = _as_blocks(b, x, dim, length)
    so_far = _of_row(b, way, blocks, dim + 1)
    totals = b.reshape(
        _total(b, way, blocks, so_far, dim + 1),
        (*x.shape[:dim], size // length, *x.shape[dim + 1 :]),
    )
    before = _in_blocks(b, replace(way, exclusive=True), totals, dim)
    beside = b.reshape(before, (*before.shape[: dim + 1], 1, *before.shape[dim + 1 :]))
    return b.reshape(b.binary(COMBINED[way.fn], so_far, beside), x.shape)


def _total(b: Lowering, way: Way, x: Value, so_far: Value, dim: int) -> Value:
    """Return the reduction of all elements along ``dim``. There is no reduction by products: it is
    the last of the running products."""
    if way.fn in _REDUCED:
        return b.reduced(_REDUCED[way.fn], x, (dim,), True)
    at = 0 if way.reversed else x.shape[dim] - 1
    last = b.cut(so_far, dim, at, 1)
    return b.binary(COMBINED[way.fn], last, b.cut(x, dim, at, 1)) if way.exclusive else last


def _as_blocks(b: Lowering, x: Value, dim: int, length: int) -> Value:
    """Split a dimension into blocks of ``length``, and the places in them."""
    blocks = x.shape[dim] // length
    return b.reshape(x, (*x.shape[:dim], blocks, length, *x.shape[dim + 1 :]))


def _in_two(b: Lowering, way: Way, x: Value, dim: int, at: int, length: int) -> Value:
    """Scan a dimension in two parts, the first of which consists of blocks of ``length``: the
    second part continues from the total of the first."""
    head, tail = b.cut(x, dim, 0, at), b.cut(x, dim, at, x.shape[dim] - at)
    first, last = (_in_blocks(b, way, part, dim) for part in (head, tail))
    if way.reversed:
        first = b.binary(COMBINED[way.fn], first, _total(b, way, tail, last, dim))
        return b.concat((first, last), dim)
    if at > LONGEST and way.fn in _REDUCED:  # the same totals are needed to scan the first part
        head = b.reduced(_REDUCED[way.fn], _as_blocks(b, head, dim, length), (dim + 1,), False)
    total = _total(b, way, head, first, dim)
    return b.concat((first, b.binary(COMBINED[way.fn], last, total)), dim)


def _running_product(b: Lowering, c: Call) -> Value:
    """``op(x, dim, dtype)``. A product of zeros and ones is one as long as all of them are ones
    (how many drafted tokens are accepted). Products of other integers are one op."""
    x, dtype = c.value(0), c.result.dtype
    low, high = b.range_of(x)
    if x.shape and low >= 0 and high <= 1:
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        failed = b.combine(BinaryFn.SUB, 1, b.typed(x, DType.F32))
        so_far = _running(b, CumulateFn.MAX, failed, dim)
        return b.typed(b.combine(BinaryFn.SUB, 1, so_far), dtype)
    y = b.typed(x, dtype) if dtype.is_integer else wide(b, b.typed(x, dtype))
    if not x.shape:
        return b.typed(y, dtype)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    return b.typed(_running(b, CumulateFn.PROD, y, dim), dtype)


def _running_extreme(*, least: bool) -> Row:
    """``op(x, dim)``: the largest (or least) element up to each one, and its last place."""

    def row(b: Lowering, c: Call) -> list[Value]:
        x = c.value(0)
        if not x.shape:
            return [x, b.constant(0, DType.I64)]
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        # places in a flipped tensor are different
        none: tuple[Value, frozenset[int]] = (x, frozenset())
        x, turned = none if c.used[1] else b.turned.get(x, none)
        truth = x.dtype is DType.I1
        small = x.dtype.is_integer and max(map(abs, b.range_of(x))) <= MAX_POSITIONS
        y = b.cast(x, DType.F32) if small else x
        y = flipped(b, y) if least else y
        most = _running(b, CumulateFn.MAX, y, dim, dim in turned)
        values = flipped(b, most) if least else most
        values = b.combine(BinaryFn.NE, values, 0) if truth else b.typed(values, x.dtype)
        values = turned_around(b, values, turned)
        return [values, _last_places(b, y, most, dim)] if c.used[1] else [values]

    return row


def _last_places(b: Lowering, x: Value, most: Value, dim: int) -> Value:
    """Return the last place up to each one along ``dim`` whose element is ``most``, the largest up
    to it: that of the last element that is the largest up to itself."""
    size = x.shape[dim]
    if size > MAX_POSITIONS:
        raise Unsupported(f"the places of running maxima along {size} elements")
    shape = tuple(size if d == dim else 1 for d in range(len(x.shape)))
    place = b.reshape(b.typed(iota(b, (size,), 0), DType.F32), shape)
    last = b.binary(BinaryFn.KEEP, is_largest(b, x, most), place)
    return b.typed(_running(b, CumulateFn.MAX, last, dim), DType.I64)


def _running_log_sum(b: Lowering, c: Call) -> Value:
    """``op(x, dim)``: the logarithm of the sum of the exponentials up to each element, computed
    relative to their maximum, which is clamped to the largest number that f32 represents."""
    x, dtype = wide(b, c.value(0)), c.result.dtype
    if not x.shape:
        return b.typed(x, dtype)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    size = x.shape[dim]
    if x.type.size * size > MOST_COMPARED:
        raise Unsupported(f"a running sum along {size} elements, in {x.type.size // size} rows")
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    row, col = b.grid(size, size)
    seen = b.reshaped(b.binary(BinaryFn.LE, col, row), (size, size, *(1 for _ in after)))
    line, over = b.reshape(x, (*before, 1, size, *after)), (dim + 1,)
    most = b.reduce(ReduceFn.MAX, choose(b, seen, line, -math.inf, x.dtype), over)
    most = b.combine(BinaryFn.MIN, b.combine(BinaryFn.MAX, most, -LARGE), LARGE)
    terms = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, line, most))
    total = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, seen, terms), over)
    y = b.binary(BinaryFn.ADD, b.unary(UnaryFn.LOG, total), most)
    return b.typed(b.reshape(y, x.shape), dtype)


SCANS: dict[str, Row] = {
    "aten.cumsum": _running_sum,
    "aten.logcumsumexp": _running_log_sum,
    "aten.cumprod": _running_product,
    "aten.cummax": _running_extreme(least=False),
    "aten.cummin": _running_extreme(least=True),
}
"""Torch ops that run along a dimension."""
