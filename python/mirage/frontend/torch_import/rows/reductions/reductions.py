"""Rows of reductions to truth values, of vector norms, extremes, and norms of given statistics."""

from __future__ import annotations

import math

from mirage.frontend.torch_import.rows.elements.comparisons import truth
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.seen_rows import has_no_empty_row
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value


def _dims(c: Call, index: int) -> tuple[int, ...]:
    return () if c.arg(index) is None else c.integers(index)


def _any(*, all_of: bool, over: bool) -> Row:
    """``op(x)`` or, with ``over``, ``op(x, dims, keepdim)``: whether any element is true, or all
    are."""

    def row(b: Lowering, c: Call) -> Value:
        x = truth(b, c.value(0))
        x = b.unary(UnaryFn.NOT, x) if all_of else x
        dims, keep = (_dims(c, 1), bool(c.arg(2, False))) if over else ((), False)
        if x.shape == c.result.shape:  # over no dimensions
            return b.unary(UnaryFn.NOT, x) if all_of else x
        rows = over and {d % len(x.shape) for d in dims} == {len(x.shape) - 1}
        if rows and not all_of and has_no_empty_row(b, x):
            return b.spread(b.constant(1, DType.I1), c.result.shape)
        count = b.reduced(ReduceFn.SUM, b.cast(x, DType.F32), dims, keep)
        return b.combine(BinaryFn.EQ if all_of else BinaryFn.NE, count, 0)

    return row


def any_of_rows(b: Lowering, x: Value) -> Value:
    """Return whether any truth value of a row is true, as a column."""
    count = b.reduced(ReduceFn.SUM, b.cast(x, DType.F32), (-1,), True)
    return b.combine(BinaryFn.NE, count, 0)


def _vector_norm(b: Lowering, c: Call) -> Value:
    """``op(x, ord, dims, keepdim, dtype)``."""
    x = wide(b, b.typed(c.value(0), c.result.dtype))
    y = norm(b, x, float(c.number(1, 2.0)), _dims(c, 2), bool(c.arg(3, False)))
    return b.typed(y, c.result.dtype)


def norm(b: Lowering, x: Value, order: float, dims: tuple[int, ...], keep: bool) -> Value:
    """Return the norm of the given order over ``dims`` (all if empty), for floats in f32 or f64."""
    if order == 2:
        total = b.reduced(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), dims, keep)
        return b.unary(UnaryFn.SQRT, total)
    if order == 0:
        other = b.cast(b.combine(BinaryFn.NE, x, 0), x.dtype)
        return b.reduced(ReduceFn.SUM, other, dims, keep)
    size = b.unary(UnaryFn.ABS, x)
    if order == 1:
        return b.reduced(ReduceFn.SUM, size, dims, keep)
    if order == math.inf:
        return b.reduced(ReduceFn.MAX, size, dims, keep)
    if order == -math.inf:
        least = b.reduced(ReduceFn.MAX, b.unary(UnaryFn.NEG, size), dims, keep)
        return b.unary(UnaryFn.NEG, least)
    if order < 0:
        raise Unsupported(f"a norm of order {order:g}")
    total = b.reduced(ReduceFn.SUM, b.power(size, as_number(order)), dims, keep)
    return b.power(total, as_number(1 / order))


def _batch_norm(b: Lowering, c: Call) -> Value:
    """``op(x, weight, bias, mean, variance, momentum, eps)``: a batch norm with given
    statistics."""
    column = (c.value(3).type.size, *(1 for _ in c.value(0).shape[2:]))
    mean, variance = (b.reshape(wide(b, c.value(i)), column) for i in (3, 4))
    return channels_scaled(b, c, mean, variance, c.number(6))


def channels_scaled(b: Lowering, c: Call, mean: Value, variance: Value, epsilon: Number) -> Value:
    """Apply a batch norm ``op(x, weight, bias, …)``: subtract the mean from ``x``, divide by the
    deviation, and scale each channel. Results that only gradients need must be unused."""
    if any(c.used[1:]):
        raise Unsupported("the statistics that a batch norm returns")
    x = c.value(0)
    scale = b.unary(UnaryFn.RSQRT, b.combine(BinaryFn.ADD, variance, epsilon))
    y = b.binary(BinaryFn.MUL, b.binary(BinaryFn.SUB, wide(b, x), mean), scale)
    for fn, index in ((BinaryFn.MUL, 1), (BinaryFn.ADD, 2)):
        v = c.optional(index)
        if v is not None:
            y = b.binary(fn, y, b.reshape(wide(b, v), (v.type.size, *(1 for _ in x.shape[2:]))))
    return b.typed(y, c.result.dtype)


def _extreme_at(*, least: bool) -> Row:
    """``op(x, dim, keepdim)``: the first position of the largest (or least) element; NaN is larger
    (or less) than any number."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        if c.arg(1) is None or not x.shape:
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
            return [x, b.constant(0, DType.I64)]
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        values = b.reshaped(extreme(b, x, (dim,), True, least), c.result.shape)
        if not c.used[1]:
            return [values]
        return [values, b.reshaped(first_extreme(b, x, dim, least), c.result.shape)]

    return row


def _extreme(*, least: bool, over: bool) -> Row:
    """``op(x)`` or, with ``over``, ``op(x, dims, keepdim)``: the largest (or least) element."""

    def row(b: Lowering, c: Call) -> Value:
        dims, keep = (_dims(c, 1), bool(c.arg(2, False))) if over else ((), False)
        return extreme(b, c.value(0), dims, keep, least)

    return row


def extreme(b: Lowering, x: Value, dims: tuple[int, ...], keep: bool, least: bool) -> Value:
    """Return the largest or least element over ``dims`` (all if empty)."""
    y = b.cast(x, DType.F32) if x.dtype is DType.I1 else x
    if least and y.dtype.is_integer:  # before dimensions are dropped: formulas have some
        over = normalize_dims(dims or tuple(range(len(x.shape))), len(x.shape))
        y = flipped(b, b.reduced(ReduceFn.MAX, flipped(b, y), dims, True))
        kept = (n for d, n in enumerate(y.shape) if keep or d not in over)
        return b.reshaped(y, tuple(kept))
    y = b.reduced(ReduceFn.MAX, flipped(b, y) if least else y, dims, keep)
    y = flipped(b, y) if least else y
    return truth(b, y) if x.dtype is DType.I1 else y


def flipped(b: Lowering, x: Value) -> Value:
    """Return the numbers in reversed order; applied twice, it returns ``x``. The least integer has
    no negative, so an integer ``n`` becomes ``-n - 1``."""
    if not x.dtype.is_integer:
        return b.unary(UnaryFn.NEG, x)
    return b.combine(BinaryFn.SUB, -1, x)


def first_extreme(b: Lowering, x: Value, dim: int, least: bool) -> Value:
    """Return the first position of the largest or least element along ``dim``, which keeps size
    1."""
    if not x.type.size:
        raise Unsupported("a maximum of no elements")
    x = b.cast(x, DType.F32) if x.dtype is DType.I1 else x
    x = flipped(b, x) if least else x
    found = is_largest(b, x, b.reduce(ReduceFn.MAX, x, (dim,)))
    size = x.shape[dim]
    left = b.combine(BinaryFn.SUB, size - 1, iota(b, (size,), 0))  # most are after the first
    left = b.reshape(left, (size, *(1 for _ in x.shape[dim + 1 :])))
    large = x.dtype.is_integer and max(map(abs, b.range_of(x))) > MAX_POSITIONS
    if size <= MAX_POSITIONS and not large:
        left = b.typed(left, DType.F32)  # in the type in which kernels hold it
    most = b.reduce(ReduceFn.MAX, b.binary(BinaryFn.KEEP, found, left), (dim,))
    return b.typed(b.combine(BinaryFn.SUB, size - 1, most), DType.I64)


def is_largest(b: Lowering, x: Value, most: Value) -> Value:
    """Return where ``x`` is the maximum or NaN."""
    found = b.binary(BinaryFn.EQ, x, most)
    return (
        found if x.dtype.is_integer else b.binary(BinaryFn.OR, found, b.binary(BinaryFn.NE, x, x))
    )


REDUCTIONS: dict[str, Row] = {
    "aten.any": _any(all_of=False, over=False),
    "aten.any.dim": _any(all_of=False, over=True),
    "aten.any.dims": _any(all_of=False, over=True),
    "aten.all": _any(all_of=True, over=False),
    "aten.all.dim": _any(all_of=True, over=True),
    "aten.all.dims": _any(all_of=True, over=True),
    "aten.linalg_vector_norm": _vector_norm,
    "aten._native_batch_norm_legit_no_training": _batch_norm,
    "aten.amax": _extreme(least=False, over=True),
    "aten.amin": _extreme(least=True, over=True),
    "aten.max": _extreme(least=False, over=False),
    "aten.min": _extreme(least=True, over=False),
    "aten.max.dim": _extreme_along(least=False),
    "aten.min.dim": _extreme_along(least=True),
    "aten.argmax": _extreme_at(least=False),
    "aten.argmin": _extreme_at(least=True),
}
"""Torch ops that reduce to truth values, norms, extremes and positions."""
