"""Rows of scans along a dimension: sums, products and maxima of all elements up to each one.

A running sum of floats is one op if a block can hold the row. A long one is computed in blocks: that
of each block, plus the sum of all blocks before it, which is a running sum itself (G. E. Blelloch,
Prefix sums and their applications, 1990). Maxima are computed in the same way. A running sum of
integers that f32 may not hold is a sum of choices. Products, and maxima of integers, take ``log2`` steps: after step ``k`` each element is combined
with the ``2^k - 1`` before it (W. D. Hillis, G. L. Steele, Data parallel algorithms, 1986).
"""

from __future__ import annotations

import math

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Call, Lowering, Row, Unsupported, wide
from mirage.frontend.torch_import.rows.movement.indexing import MOST_COMPARED
from mirage.frontend.torch_import.rows.reductions.reductions import flipped, is_largest
from mirage.semantics.builder import normalize_dims
from mirage.semantics.ops.cumulation import COMBINED, NOTHING
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import TensorType, Value

LARGE = 1e38
"""The number that replaces infinity where a difference is taken."""
LONGEST, BLOCK = 1024, 128
"""The most elements of a row that one block scans, and the least number of elements of the blocks of
a longer row; the largest number that divides the size is chosen."""


def _running_sum(b: Lowering, c: Call) -> Value:
    """``op(x, dim, dtype)``. Sums of whole numbers that f32 represents, such as counts of tokens,
    are computed in f32; other integers are not added in blocks, because PyTorch does that."""
    x, dtype = c.value(0), c.result.dtype
    if not x.shape:
        return b.typed(x, dtype)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    size = x.shape[dim]
    small = size * max(map(abs, b.range_of(x))) <= MAX_POSITIONS
    if dtype.is_integer and not small and x.type.size * size > MOST_COMPARED:
        raise Unsupported(f"a running sum along {size} elements, in {x.type.size // size} rows")
    if dtype.is_integer:
        x = b.typed(x, DType.F32 if small else DType.I64)
    else:
        x = wide(b, b.typed(x, dtype))
    return b.typed(_running(b, ReduceFn.SUM, x, dim), dtype)


def _running(b: Lowering, fn: ReduceFn, x: Value, dim: int) -> Value:
    """Return the sum or the largest of all elements of floats up to each one along ``dim``."""
    if x.dtype.is_integer:
        return b.swapped(_of_pairs(b, fn, b.swapped(x, dim, -1)), dim, -1)
    if x.shape[dim] <= LONGEST:
        return _of_row(b, fn, x, dim)
    return b.swapped(_in_blocks(b, fn, b.swapped(x, dim, -1), exclusive=False), dim, -1)


def _of_row(b: Lowering, fn: ReduceFn, x: Value, dim: int, *, exclusive: bool = False) -> Value:
    """Reduce the elements up to each one, or before each one, of rows that a block can hold."""
    if x.shape[dim] > 1:
        return b.cumulate(fn, x, dim, exclusive=exclusive)
    return b.filled(NOTHING[fn], x.type) if exclusive else x


def _in_blocks(b: Lowering, fn: ReduceFn, x: Value, *, exclusive: bool) -> Value:
    """Reduce the elements up to each one (or before each one) along the last dimension, block by
    block."""
    size = x.shape[-1]
    if size <= LONGEST:
        return _of_row(b, fn, x, len(x.shape) - 1, exclusive=exclusive)
    length = next((n for n in range(LONGEST, BLOCK - 1, -1) if size % n == 0), LONGEST)
    if missing := -size % length:
        zeros = b.filled(0, TensorType((*x.shape[:-1], missing), x.dtype))
        x = b.concat((x, zeros), -1)
    blocks = b.reshape(x, (*x.shape[:-1], x.shape[-1] // length, length))
    before = _in_blocks(b, fn, b.reduced(fn, blocks, (-1,), False), exclusive=True)
    column = b.reshape(before, (*before.shape, 1))
    y = b.binary(COMBINED[fn], b.cumulate(fn, blocks, -1, exclusive=exclusive), column)
    return b.cut(b.reshape(y, x.shape), -1, 0, size)


def _of_pairs(b: Lowering, fn: ReduceFn, x: Value) -> Value:
    """Reduce the integers up to each one along the last dimension, with a choice for each pair of
    places."""
    size = x.shape[-1]
    row, col = b.grid(size, size)
    terms = b.binary(
        BinaryFn.KEEP, b.binary(BinaryFn.LE, col, row), b.reshape(x, (*x.shape[:-1], 1, size))
    )
    return b.reduced(fn, terms, (-1,), False)


def _scan(b: Lowering, fn: BinaryFn, x: Value, dim: int) -> Value:
    """Combine by ``fn`` all elements up to each one along ``dim``."""
    step, size = 1, x.shape[dim]
    while step < size:
        later, earlier = b.cut(x, dim, step, size - step), b.cut(x, dim, 0, size - step)
        x = b.concat((b.cut(x, dim, 0, step), b.binary(fn, later, earlier)), dim)
        step *= 2
    return x


def _running_product(b: Lowering, c: Call) -> Value:
    """``op(x, dim, dtype)``."""
    x, dtype = c.value(0), c.result.dtype
    y = b.typed(x, dtype) if dtype.is_integer else wide(b, b.typed(x, dtype))
    if not x.shape:
        return b.typed(y, dtype)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    return b.typed(_scan(b, BinaryFn.MUL, y, dim), dtype)


def _running_extreme(*, least: bool) -> Row:
    """``op(x, dim)``: the largest (or least) element up to each one, and its last place."""

    def row(b: Lowering, c: Call) -> list[Value]:
        x = c.value(0)
        if not x.shape:
            return [x, b.constant(0, DType.I64)]
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        truth = x.dtype is DType.I1
        y = b.cast(x, DType.F32) if truth else x
        y = flipped(b, y) if least else y
        if y.dtype.is_integer:
            most = _scan(b, BinaryFn.MAX, y, dim)
        else:
            most = _running(b, ReduceFn.MAX, y, dim)
        values = flipped(b, most) if least else most
        values = b.combine(BinaryFn.NE, values, 0) if truth else values
        return [values, _last_places(b, y, most, dim)] if c.used[1] else [values]

    return row


def _last_places(b: Lowering, x: Value, most: Value, dim: int) -> Value:
    """Return the last place up to each one along ``dim`` whose element is ``most``, the largest up
    to it. In a long row, that is the last element that is the largest up to itself."""
    size = x.shape[dim]
    if size > MAX_POSITIONS:
        raise Unsupported(f"the places of running maxima along {size} elements")
    x, most = b.swapped(x, dim, -1), b.swapped(most, dim, -1)
    if x.type.size * size <= MOST_COMPARED:
        row, col = b.grid(size, size)
        line, column = b.reshape(x, (*x.shape[:-1], 1, size)), b.reshape(most, (*most.shape, 1))
        found = is_largest(b, line, column)
        found = b.binary(BinaryFn.AND, found, b.binary(BinaryFn.LE, col, row))
        last = b.binary(BinaryFn.KEEP, found, b.typed(col, DType.F32))
        at = b.reduced(ReduceFn.MAX, last, (-1,), False)
    else:
        place = b.typed(iota(b, (size,), 0), DType.F32)
        last = b.binary(BinaryFn.KEEP, is_largest(b, x, most), place)
        at = _running(b, ReduceFn.MAX, last, len(last.shape) - 1)
    return b.typed(b.swapped(at, dim, -1), DType.I64)


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
    x = b.swapped(x, dim, -1)
    row, col = b.grid(size, size)
    seen = b.binary(BinaryFn.LE, col, row)
    line = b.reshape(x, (*x.shape[:-1], 1, size))
    most = b.reduce(ReduceFn.MAX, choose(b, seen, line, -math.inf, x.dtype), (-1,))
    most = b.combine(BinaryFn.MIN, b.combine(BinaryFn.MAX, most, -LARGE), LARGE)
    terms = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, line, most))
    total = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, seen, terms), (-1,))
    y = b.binary(BinaryFn.ADD, b.unary(UnaryFn.LOG, total), most)
    return b.typed(b.swapped(b.reshape(y, x.shape), dim, -1), dtype)


SCANS: dict[str, Row] = {
    "aten.cumsum": _running_sum,
    "aten.logcumsumexp": _running_log_sum,
    "aten.cumprod": _running_product,
    "aten.cummax": _running_extreme(least=False),
    "aten.cummin": _running_extreme(least=True),
}
"""Torch ops that run along a dimension."""
