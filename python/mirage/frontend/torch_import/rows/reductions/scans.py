"""Rows of scans along a dimension: sums, products and maxima of all elements up to each one.

A running sum is a sum of choices, in one kernel. Products and maxima take ``log2`` steps: after
step ``k`` each element is combined with the ``2^k - 1`` before it (W. D. Hillis, G. L. Steele, Data
parallel algorithms, 1986).
"""

from __future__ import annotations

import math

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Call, Lowering, Row, Unsupported, wide
from mirage.frontend.torch_import.rows.movement.indexing import MOST_COMPARED
from mirage.frontend.torch_import.rows.reductions.reductions import flipped, place_of_last
from mirage.semantics.builder import normalize_dims
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

LARGE = 1e38
"""The number that replaces infinity where a difference is taken."""


def _running_sum(b: Lowering, c: Call) -> Value:
    """``op(x, dim, dtype)``: each element is added to itself and all later ones, which takes
    quadratic work. Sums of whole numbers that f32 represents, such as counts of tokens, are
    computed in f32."""
    x, dtype = c.value(0), c.result.dtype
    if not x.shape:
        return b.typed(x, dtype)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    size = x.shape[dim]
    if x.type.size * size > MOST_COMPARED:
        raise Unsupported(f"a running sum along {size} elements, in {x.type.size // size} rows")
    most = size * max(map(abs, b.range_of(x)))
    if dtype.is_integer:
        x = b.typed(x, DType.F32 if most <= MAX_POSITIONS else DType.I64)
    else:
        x = wide(b, b.typed(x, dtype))
    x = b.swapped(x, dim, -1)
    row, col = b.grid(size, size)
    seen = b.binary(BinaryFn.LE, col, row)
    terms = b.binary(BinaryFn.KEEP, seen, b.reshape(x, (*x.shape[:-1], 1, size)))
    return b.typed(b.swapped(b.reduced(ReduceFn.SUM, terms, (-1,), False), dim, -1), dtype)


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
        most = _scan(b, BinaryFn.MAX, y, dim)
        values = flipped(b, most) if least else most
        values = b.combine(BinaryFn.NE, values, 0) if truth else values
        return [values, place_of_last(b, y, most, dim)] if c.used[1] else [values]

    return row


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
