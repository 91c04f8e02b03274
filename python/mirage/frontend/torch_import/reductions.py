"""Rows of reductions to truth values and norms, of statistics that are given, and of running
sums."""

from __future__ import annotations

import math

from mirage.frontend.torch_import.indexing import MOST_COMPARED
from mirage.frontend.torch_import.lowering import Call, Lowering, Row, Unsupported, wide
from mirage.frontend.torch_import.positions import truth
from mirage.semantics.builder import normalize_dims
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value


def _dims(c: Call, index: int) -> tuple[int, ...]:
    return () if c.arg(index) is None else c.integers(index)


def _any(*, all_of: bool, over: bool) -> Row:
    """``op(x)`` or, ``over`` dimensions, ``op(x, dims, keepdim)``: whether one is true, or all."""

    def row(b: Lowering, c: Call) -> Value:
        x = truth(b, c.value(0))
        x = b.unary(UnaryFn.NOT, x) if all_of else x
        dims, keep = (_dims(c, 1), bool(c.arg(2, False))) if over else ((), False)
        count = b.reduced(ReduceFn.SUM, b.cast(x, DType.F32), dims, keep)
        return b.combine(BinaryFn.EQ if all_of else BinaryFn.NE, count, 0)

    return row


def _vector_norm(b: Lowering, c: Call) -> Value:
    """``op(x, ord, dims, keepdim, dtype)``."""
    x, order = wide(b, c.value(0)), float(c.number(1, 2.0))
    dims, keep = _dims(c, 2), bool(c.arg(3, False))
    if order == 2:
        total = b.reduced(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), dims, keep)
        y = b.unary(UnaryFn.SQRT, total)
    elif order == 1:
        y = b.reduced(ReduceFn.SUM, b.unary(UnaryFn.ABS, x), dims, keep)
    elif order == math.inf:
        y = b.reduced(ReduceFn.MAX, b.unary(UnaryFn.ABS, x), dims, keep)
    else:
        raise Unsupported(f"a norm of order {order:g}")
    return b.typed(y, c.result.dtype)


def _batch_norm(b: Lowering, c: Call) -> Value:
    """``op(x, weight, bias, mean, variance, momentum, eps)``: with statistics that are given; the
    results that only gradients need must be unused."""
    if any(c.used[1:]):
        raise Unsupported("the statistics that a batch norm returns")
    x = c.value(0)

    def column(v: Value) -> Value:
        return b.reshape(wide(b, v), (v.type.size, *(1 for _ in x.shape[2:])))

    scale = b.unary(UnaryFn.RSQRT, b.combine(BinaryFn.ADD, column(c.value(4)), c.number(6)))
    y = b.binary(BinaryFn.SUB, wide(b, x), column(c.value(3)))
    y = b.binary(BinaryFn.MUL, y, scale)
    for fn, index in ((BinaryFn.MUL, 1), (BinaryFn.ADD, 2)):
        v = c.optional(index)
        y = y if v is None else b.binary(fn, y, column(v))
    return b.typed(y, x.dtype)


def _running_sum(b: Lowering, c: Call) -> Value:
    """``op(x, dim, dtype)``: each element is added to those that do not come before it, which takes
    work that grows with the square of their number. Sums of whole numbers that f32 holds, as counts
    of tokens, are those of floats."""
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


def _extreme_at(*, least: bool) -> Row:
    """``op(x, dim, keepdim)``: the first position of the largest (least) element; not a number is
    larger (less) than any."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        if c.arg(1) is None:
            y = first_extreme(b, b.reshaped(x, (x.type.size,)), 0, least)
            return b.reshaped(y, c.result.shape)
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        return b.reshaped(first_extreme(b, x, dim, least), c.result.shape)

    return row


def _extreme_along(*, least: bool) -> Row:
    """``op(x, dim, keepdim)``: the largest (least) element and its first position."""

    def row(b: Lowering, c: Call) -> list[Value]:
        x = c.value(0)
        if not x.shape:
            raise Unsupported("a maximum along no dimension")
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        values = b.reduce(ReduceFn.MAX, _negative(b, x) if least else x, (dim,))
        values = b.reshaped(b.unary(UnaryFn.NEG, values) if least else values, c.result.shape)
        if not c.used[1]:
            return [values]
        return [values, b.reshaped(first_extreme(b, x, dim, least), c.result.shape)]

    return row


def _negative(b: Lowering, x: Value) -> Value:
    if x.dtype.is_integer and math.isinf(b.range_of(x)[0]):
        raise Unsupported("a minimum of integers whose negatives may not be")  # -(-2^63)
    return b.unary(UnaryFn.NEG, x)


def first_extreme(b: Lowering, x: Value, dim: int, least: bool) -> Value:
    """Along ``dim``, which keeps size 1: the first position of the largest or least element."""
    if not x.type.size:
        raise Unsupported("a maximum of no elements")
    if x.dtype is DType.I1:
        raise Unsupported("a maximum of truth values")
    x = _negative(b, x) if least else x
    found = b.binary(BinaryFn.EQ, x, b.reduce(ReduceFn.MAX, x, (dim,)))
    if not x.dtype.is_integer:
        found = b.binary(BinaryFn.OR, found, b.binary(BinaryFn.NE, x, x))  # not a number
    size = x.shape[dim]
    left = b.combine(BinaryFn.SUB, size, iota(b, (size,), 0))  # the first has the most after it
    left = b.reshape(left, (size, *(1 for _ in x.shape[dim + 1 :])))
    left = b.typed(left, DType.F32) if size <= MAX_POSITIONS else left  # as kernels hold it
    most = b.reduce(ReduceFn.MAX, b.binary(BinaryFn.KEEP, found, left), (dim,))
    return b.typed(b.combine(BinaryFn.SUB, size, most), DType.I64)


REDUCTIONS: dict[str, Row] = {
    "aten.any": _any(all_of=False, over=False),
    "aten.any.dim": _any(all_of=False, over=True),
    "aten.any.dims": _any(all_of=False, over=True),
    "aten.all": _any(all_of=True, over=False),
    "aten.all.dim": _any(all_of=True, over=True),
    "aten.all.dims": _any(all_of=True, over=True),
    "aten.linalg_vector_norm": _vector_norm,
    "aten._native_batch_norm_legit_no_training": _batch_norm,
    "aten.cumsum": _running_sum,
    "aten.max.dim": _extreme_along(least=False),
    "aten.min.dim": _extreme_along(least=True),
    "aten.argmax": _extreme_at(least=False),
    "aten.argmin": _extreme_at(least=True),
}
"""Torch ops that reduce to truth values, norms, positions, and running sums."""
