"""Rows of functions that are made of others: what PyTorch computes in one kernel of its own, and
has no meaning of its own here. All are computed in f32 at least, as PyTorch computes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mirage.frontend.torch_import.indexing import MOST_COMPARED
from mirage.frontend.torch_import.lowering import Call, Lowering, Row, Unsupported, wide
from mirage.semantics.builder import normalize_dims
from mirage.semantics.numbers import as_number
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

MOST_FACTORS = 64
"""Elements that are multiplied with each other one by one."""


def _in_f32(made: Callable[[Lowering, Value, Call], Value]) -> Row:
    """A row for a function of one tensor of fractions."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        if x.dtype.is_integer:
            raise Unsupported("this function of integers")
        return b.typed(made(b, wide(b, x), c), c.result.dtype)

    return row


def expm1(b: Lowering, x: Value) -> Value:
    """``exp(x) - 1`` as ``tanh(x / 2) (exp(x) + 1)``, which loses no digits near 0."""
    half = b.unary(UnaryFn.TANH, b.combine(BinaryFn.MUL, x, 0.5))
    return b.binary(BinaryFn.MUL, half, b.combine(BinaryFn.ADD, b.unary(UnaryFn.EXP, x), 1.0))


def _negative_part(b: Lowering, x: Value) -> Value:
    return b.combine(BinaryFn.MIN, x, 0.0)


def _leaky_relu(b: Lowering, x: Value, c: Call) -> Value:
    """``op(x, slope)``."""
    below = b.combine(BinaryFn.MUL, _negative_part(b, x), c.number(1, 0.01))
    return b.binary(BinaryFn.ADD, b.unary(UnaryFn.RELU, x), below)


def _elu(b: Lowering, x: Value, c: Call) -> Value:
    """``op(x, alpha, scale, input_scale)``: ``scale x``, or ``scale alpha expm1(input_scale x)``
    where ``x`` is negative."""
    alpha, scale, inner = (c.number(i, 1.0) for i in (1, 2, 3))
    if inner < 0:
        raise Unsupported(f"an input scale of {float(inner):g}")
    below = _negative_part(b, x)
    below = expm1(b, below if inner == 1 else b.combine(BinaryFn.MUL, below, inner))
    if alpha != 1:
        below = b.combine(BinaryFn.MUL, below, alpha)
    y = b.binary(BinaryFn.ADD, b.unary(UnaryFn.RELU, x), below)
    return y if scale == 1 else b.combine(BinaryFn.MUL, y, scale)


def _sinh(b: Lowering, x: Value, c: Call) -> Value:
    """``(expm1(x) - expm1(-x)) / 2``."""
    down = expm1(b, b.unary(UnaryFn.NEG, x))
    return b.combine(BinaryFn.MUL, b.binary(BinaryFn.SUB, expm1(b, x), down), 0.5)


def _logarithm(base: float) -> Callable[[Lowering, Value, Call], Value]:
    factor = 1.0 / math.log(base)
    return lambda b, x, c: b.combine(BinaryFn.MUL, b.unary(UnaryFn.LOG, x), factor)


def _truncated(b: Lowering, x: Value, c: Call) -> Value:
    """What is before the point: the floor of the absolute value, with the sign."""
    size = b.unary(UnaryFn.FLOOR, b.unary(UnaryFn.ABS, x))
    below = b.combine(BinaryFn.LT, x, 0.0)
    above = b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, below), size)
    return b.binary(BinaryFn.SUB, above, b.binary(BinaryFn.KEEP, below, size))


def _sign(b: Lowering, c: Call) -> Value:
    """1, 0 or -1, whether fraction or integer."""
    x = c.value(0)
    if x.dtype is DType.I1:
        return x
    zero = as_number(0)
    over, under = b.combine(BinaryFn.LT, zero, x), b.combine(BinaryFn.LT, x, zero)
    counted = (b.cast(v, DType.F32) for v in (over, under))
    return b.typed(b.binary(BinaryFn.SUB, *counted), c.result.dtype)


def _is_nan(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    return b.binary(BinaryFn.NE, x, x)


def _is_infinite(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    if x.dtype.is_integer:
        raise Unsupported("infinities among integers")
    return b.combine(BinaryFn.EQ, b.unary(UnaryFn.ABS, x), math.inf)


def _log_softmax(b: Lowering, c: Call) -> Value:
    """``op(x, dim, half_to_float)``: ``x - max - log(sum(exp(x - max)))``."""
    x = wide(b, c.value(0))
    if not x.shape:
        return b.typed(b.binary(BinaryFn.SUB, x, x), c.result.dtype)
    dims = normalize_dims((c.integer(1),), len(x.shape))
    shifted = b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, x, dims))
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, shifted), dims)
    y = b.binary(BinaryFn.SUB, shifted, b.unary(UnaryFn.LOG, total))
    return b.typed(y, c.result.dtype)


def _product(*, over: bool) -> Row:
    """``op(x)`` or, ``over`` a dimension, ``op(x, dim, keepdim, dtype)``: halves are multiplied
    with each other until one is left."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        if x.dtype is DType.I1 or c.result.dtype.is_integer:
            raise Unsupported("a product of integers")
        y = wide(b, x)
        y = y if over else b.reshaped(y, (y.type.size,))
        if not y.shape:
            return b.typed(y, c.result.dtype)
        (dim,) = normalize_dims((c.integer(1) if over else 0,), len(y.shape))
        if not 0 < y.shape[dim] <= MOST_FACTORS:
            raise Unsupported(f"a product of {y.shape[dim]} elements (limit {MOST_FACTORS})")
        while (n := y.shape[dim]) > 1:
            halves = b.cut(y, dim, 0, n // 2), b.cut(y, dim, n // 2, n // 2)
            last = b.cut(y, dim, n - 1, 1) if n % 2 else None
            y = b.binary(BinaryFn.MUL, *halves)
            y = y if last is None else b.concat((y, last), dim)
        return b.typed(b.reshaped(y, c.result.shape), c.result.dtype)

    return row


def _diagonal(b: Lowering, c: Call) -> Value:
    """``op(x, offset, dim1, dim2)``: of each row, the element at its place is all that is left."""
    x = c.value(0)
    offset = c.integer(1) if c.arg(1) is not None else 0
    given = tuple(c.integer(i) if c.arg(i) is not None else i - 2 for i in (2, 3))
    first, second = (d % len(x.shape) for d in given)
    order = tuple(d for d in range(len(x.shape)) if d not in (first, second))
    x = b.permuted(x, (*order, first, second))
    start, n = max(0, -offset), c.result.shape[-1]
    if x.dtype.is_integer or not n or x.type.size > MOST_COMPARED:
        raise Unsupported(f"a diagonal of {x.type}")
    x = b.cut(b.cut(x, -2, start, n), -1, max(0, offset), n)
    row, col = b.grid(n, n)
    kept = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.EQ, row, col), x)
    return b.reduced(ReduceFn.SUM, kept, (-1,), False)


def _batch_statistics(b: Lowering, c: Call) -> Value:
    """``op(x, weight, bias, training, momentum, eps)``: a batch norm with the statistics of its
    own input."""
    if any(c.used[1:]):
        raise Unsupported("the statistics that a batch norm returns")
    x = wide(b, c.value(0))
    dims = tuple(d for d in range(len(x.shape)) if d != 1)
    centred = b.binary(BinaryFn.SUB, x, b.mean(x, dims, True))
    variance = b.mean(b.unary(UnaryFn.SQUARE, centred), dims, True)
    scale = b.unary(UnaryFn.RSQRT, b.combine(BinaryFn.ADD, variance, c.number(5)))
    y = b.binary(BinaryFn.MUL, centred, scale)
    for fn, index in ((BinaryFn.MUL, 1), (BinaryFn.ADD, 2)):
        v = c.optional(index)
        if v is not None:
            y = b.binary(fn, y, b.reshape(wide(b, v), (v.type.size, *(1 for _ in x.shape[2:]))))
    return b.typed(y, c.result.dtype)


def _pooled(b: Lowering, c: Call, sizes: tuple[int, int]) -> Value:
    """The mean of each window of that size, side by side."""
    x = wide(b, c.value(0))
    height, width = x.shape[-2:]
    h, w = sizes
    if not x.type.size or height % h or width % w:
        raise Unsupported(f"windows of {h}x{w} that do not cover {height}x{width}")
    tiles = b.reshaped(x, (*x.shape[:-2], height // h, h, width // w, w))
    return b.typed(b.reshaped(b.mean(tiles, (-3, -1), False), c.result.shape), c.result.dtype)


def _average(b: Lowering, c: Call) -> Value:
    """``op(x, size, stride, padding, ceil, count_padding, divisor)`` where windows do not overlap
    and nothing is left over."""
    sizes = c.integers(1) * (2 // len(c.integers(1)))
    stride = c.integers(2) if c.arg(2) else sizes
    if (stride * (2 // len(stride)), any(c.integers(3))) != (sizes, False) or c.arg(6) is not None:
        raise Unsupported("a mean over windows that overlap or are padded")
    return _pooled(b, c, (sizes[0], sizes[1]))


def _adaptive_average(b: Lowering, c: Call) -> Value:
    """``op(x, size)`` where all windows are equal."""
    height, width = c.value(0).shape[-2:]
    rows, cols = c.result.shape[-2:]
    if not rows or not cols or height % rows or width % cols:
        raise Unsupported(f"{rows}x{cols} windows of {height}x{width}")
    return _pooled(b, c, (height // rows, width // cols))


def _buckets(b: Lowering, c: Call) -> Value:
    """``op(x, boundaries, out_int32, right)``: how many boundaries are below each element (or at
    it, with ``right``)."""
    x, boundaries = c.value(0), c.value(1)
    if x.dtype is not boundaries.dtype or x.type.size * boundaries.type.size > MOST_COMPARED:
        raise Unsupported(f"{x.type} among {boundaries.type}")
    column = b.reshape(x, (*x.shape, 1))
    fn = BinaryFn.LE if c.arg(3, False) else BinaryFn.LT
    below = b.cast(b.binary(fn, boundaries, column), DType.F32)
    return b.typed(b.reduced(ReduceFn.SUM, below, (-1,), False), c.result.dtype)


FUNCTIONS: dict[str, Row] = {
    "aten._log_softmax": _log_softmax,
    "aten.leaky_relu": _in_f32(_leaky_relu),
    "aten.elu": _in_f32(_elu),
    "aten.expm1": _in_f32(lambda b, x, c: expm1(b, x)),
    "aten.sinh": _in_f32(_sinh),
    "aten.log2": _in_f32(_logarithm(2.0)),
    "aten.log10": _in_f32(_logarithm(10.0)),
    "aten.trunc": _in_f32(_truncated),
    "aten.sign": _sign,
    "aten.isnan": _is_nan,
    "aten.isinf": _is_infinite,
    "aten.prod": _product(over=False),
    "aten.prod.dim_int": _product(over=True),
    "aten.diagonal": _diagonal,
    "aten._native_batch_norm_legit.no_stats": _batch_statistics,
    "aten.avg_pool2d": _average,
    "aten._adaptive_avg_pool2d": _adaptive_average,
    "aten.bucketize.Tensor": _buckets,
}
"""Torch ops that are made of several of ours."""
