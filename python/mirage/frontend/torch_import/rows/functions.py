"""Rows of functions that are built from others: PyTorch computes each in one kernel of its own, and
they are not primitive here. All are computed in f32 at least, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mirage.frontend.torch_import.rows.elements.comparisons import truth
from mirage.frontend.torch_import.rows.elements.floors_and_remainders import sign_of
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.indexing import MOST_COMPARED
from mirage.frontend.torch_import.rows.reductions.reductions import channels_scaled
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

MOST_FACTORS = 1 << 16
"""The most elements of a product that is computed by multiplying halves."""


def _in_f32(made: Callable[[Lowering, Value, Call], Value]) -> Row:
    """Return a row for a function of one float tensor."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        if x.dtype.is_integer:
            raise Unsupported("this function of integers")
        return b.typed(made(b, wide(b, x), c), c.result.dtype)

    return row


def expm1(b: Lowering, x: Value) -> Value:
    """Return ``exp(x) - 1`` as ``tanh(x / 2) (exp(x) + 1)``, which loses no digits near 0."""
    half = b.unary(UnaryFn.TANH, b.combine(BinaryFn.MUL, x, 0.5))
    return b.binary(BinaryFn.MUL, half, b.combine(BinaryFn.ADD, b.unary(UnaryFn.EXP, x), 1.0))


def _negative_part(b: Lowering, x: Value) -> Value:
    return b.combine(BinaryFn.MIN, x, 0.0)


def _leaky_relu(b: Lowering, x: Value, c: Call) -> Value:
    """``op(x, slope)``."""
    below = b.combine(BinaryFn.MUL, _negative_part(b, x), c.number(1, 0.01))
    return b.binary(BinaryFn.ADD, b.unary(UnaryFn.RELU, x), below)


def _rrelu(b: Lowering, x: Value, c: Call) -> Value:
    """``op(x, noise, lower, upper, training)``: outside of training, the slope is the mean of the
    limits."""
    if c.arg(4):
        raise Unsupported("slopes drawn in training; call .eval() on the module first")
    slope = (float(c.number(2, 1.0 / 8.0)) + float(c.number(3, 1.0 / 3.0))) / 2.0
    below = b.combine(BinaryFn.MUL, _negative_part(b, x), slope)
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


def _sign(b: Lowering, c: Call) -> Value:
    """Return 1, 0 or -1, for floats and integers."""
    x = c.value(0)
    return x if x.dtype is DType.I1 else b.typed(sign_of(b, x), c.result.dtype)


def _is_nan(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    return b.binary(BinaryFn.NE, x, x)


def _is_infinite(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    if x.dtype.is_integer:
        return b.spread(b.constant(0, DType.I1), x.shape)
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
    """``op(x)`` or, with ``over``, ``op(x, dim, keepdim, dtype)``: halves are multiplied with each
    other until one element is left. For integers that f32 may not hold it is the last of the
    running products, which are exact."""

    def row(b: Lowering, c: Call) -> Value:
        x, dtype = c.value(0), c.result.dtype
        y = b.typed(x, dtype) if dtype.is_integer else wide(b, b.typed(x, dtype))
        y = y if over else b.reshaped(y, (y.type.size,))
        if not y.shape:
            return b.typed(y, c.result.dtype)
        (dim,) = normalize_dims((c.integer(1) if over else 0,), len(y.shape))
        if not y.shape[dim]:
            return b.filled(1.0, c.result)
        if y.shape[dim] > MOST_FACTORS:
            raise Unsupported(f"a product of {y.shape[dim]} elements (limit {MOST_FACTORS})")
        bits = y.shape[dim] * math.log2(max(1, *map(abs, b.range_of(x))))
        if dtype.is_integer and y.shape[dim] > 1 and bits > math.log2(MAX_POSITIONS):
            y = b.cut(b.cumulate(CumulateFn.PROD, y, dim), dim, y.shape[dim] - 1, 1)
        while (n := y.shape[dim]) > 1:
            halves = b.cut(y, dim, 0, n // 2), b.cut(y, dim, n // 2, n // 2)
            last = b.cut(y, dim, n - 1, 1) if n % 2 else None
            y = b.binary(BinaryFn.MUL, *halves)
            y = y if last is None else b.concat((y, last), dim)
        return b.typed(b.reshaped(y, c.result.shape), c.result.dtype)

    return row


def _diagonal(b: Lowering, c: Call) -> Value:
    """``op(x, offset, dim1, dim2)``: only the diagonal element of each row is kept."""
    x = c.value(0)
    offset = c.integer(1) if c.arg(1) is not None else 0
    given = tuple(c.integer(i) if c.arg(i) is not None else i - 2 for i in (2, 3))
    first, second = (d % len(x.shape) for d in given)
    order = tuple(d for d in range(len(x.shape)) if d not in (first, second))
    x = b.permuted(x, (*order, first, second))
    start, n = max(0, -offset), c.result.shape[-1]
    if not n or x.type.size > MOST_COMPARED:
        raise Unsupported(f"a diagonal of {x.type}")
    x = b.cut(b.cut(x, -2, start, n), -1, max(0, offset), n)
    row, col = b.grid(n, n)
    y = b.cast(x, DType.F32) if x.dtype is DType.I1 else x
    kept = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.EQ, row, col), y)
    total = b.reduced(ReduceFn.SUM, kept, (-1,), False)
    return truth(b, total) if x.dtype is DType.I1 else b.typed(total, x.dtype)


def _batch_statistics(b: Lowering, c: Call) -> Value:
    """``op(x, weight, bias, training, momentum, eps)``: a batch norm with the statistics of its
    own input."""
    x = wide(b, c.value(0))
    dims = tuple(d for d in range(len(x.shape)) if d != 1)
    mean = b.mean(x, dims, True)
    squares = b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.SUB, x, mean))
    return channels_scaled(b, c, mean, b.mean(squares, dims, True), c.number(5))


def _buckets(b: Lowering, c: Call) -> Value:
    """``op(x, boundaries, out_int32, right)``: how many boundaries are below each element (or at
    it, with ``right``)."""
    return _counted(b, c, c.value(0), c.value(1), bool(c.arg(3, False)))


def _searched(b: Lowering, c: Call) -> Value:
    """``op(sorted, x, out_int32, right, side, sorter)``: the number of boundaries below each
    element, in one sorted line for all elements or one for each line of ``x``."""
    if c.arg(5) is not None:
        raise Unsupported("a line that is sorted by indices")
    return _counted(b, c, c.value(1), c.value(0), bool(c.arg(3, False)) or c.arg(4) == "right")


def _counted(b: Lowering, c: Call, x: Value, bounds: Value, or_at: bool) -> Value:
    if x.dtype is not bounds.dtype or x.type.size * bounds.shape[-1] > MOST_COMPARED:
        raise Unsupported(f"{x.type} among {bounds.type}")
    if len(bounds.shape) > 1:
        bounds = b.reshape(bounds, (*bounds.shape[:-1], 1, bounds.shape[-1]))
    column = b.reshape(x, (*x.shape, 1))
    # NaN is beyond all boundaries.
    beyond = b.binary(BinaryFn.LT if or_at else BinaryFn.LE, column, bounds)
    count = b.cast(b.unary(UnaryFn.NOT, beyond), DType.F32)
    return b.typed(b.reduced(ReduceFn.SUM, count, (-1,), False), c.result.dtype)


FUNCTIONS: dict[str, Row] = {
    "aten._log_softmax": _log_softmax,
    "aten.leaky_relu": _in_f32(_leaky_relu),
    "aten.rrelu_with_noise_functional": _in_f32(_rrelu),
    "aten.elu": _in_f32(_elu),
    "aten.expm1": _in_f32(lambda b, x, c: expm1(b, x)),
    "aten.sinh": _in_f32(_sinh),
    "aten.log2": _in_f32(_logarithm(2.0)),
    "aten.log10": _in_f32(_logarithm(10.0)),
    "aten.sign": _sign,
    "aten.isnan": _is_nan,
    "aten.isinf": _is_infinite,
    "aten.prod": _product(over=False),
    "aten.prod.dim_int": _product(over=True),
    "aten.diagonal": _diagonal,
    "aten._native_batch_norm_legit.no_stats": _batch_statistics,
    "aten.bucketize.Tensor": _buckets,
    "aten.searchsorted.Tensor": _searched,
}
"""Torch ops that become several ops."""
