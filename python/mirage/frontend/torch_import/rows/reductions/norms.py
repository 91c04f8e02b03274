"""Rows of sums, means, variances, softmax and norms."""

from __future__ import annotations

from fractions import Fraction

from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

_EPSILON = {DType.F16: 2.0**-23, DType.BF16: 2.0**-23, DType.F32: 2.0**-23, DType.F64: 2.0**-52}
"""The eps that rms_norm adds if none is given: that of the type in which PyTorch computes."""


def _in_type(b: Lowering, c: Call, x: Value) -> Value:
    """Convert the operand of a reduction to the result's type if that is wider."""
    return b.typed(x, c.result.dtype)


def _dims(c: Call, index: int) -> tuple[int, ...]:
    return () if c.arg(index) is None else c.integers(index)


def _sum(b: Lowering, c: Call) -> Value:
    """``op(x, dims, keepdim)``."""
    x = _in_type(b, c, c.value(0))
    return b.reduced(ReduceFn.SUM, x, _dims(c, 1), bool(c.arg(2, False)))


def _sum_all(b: Lowering, c: Call) -> Value:
    return b.reduced(ReduceFn.SUM, _in_type(b, c, c.value(0)), (), False)


def _mean(b: Lowering, c: Call) -> Value:
    return b.mean(_in_type(b, c, c.value(0)), _dims(c, 1), bool(c.arg(2, False)))


def _mean_all(b: Lowering, c: Call) -> Value:
    return b.mean(_in_type(b, c, c.value(0)), (), False)


def _variance(b: Lowering, c: Call) -> tuple[Value, Value]:
    """``(variance, mean)`` of ``op(x, dims, correction, keepdim)``."""
    x = c.value(0)
    dims = normalize_dims(_dims(c, 1), len(x.shape)) or tuple(range(len(x.shape)))
    correction, keep = c.number(2, 1.0), bool(c.arg(3, False))
    mean = b.mean(x, dims, True)
    squares = b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.SUB, x, mean))
    count = Fraction(x.type.size, mean.type.size)
    if count <= correction:
        raise Unsupported(f"a variance of {count} elements with correction {correction}")
    total = b.reduced(ReduceFn.SUM, squares, dims, keep)
    small = tuple(n for i, n in enumerate(x.shape) if i not in dims)
    return b.combine(BinaryFn.MUL, total, 1 / (count - correction)), mean if keep else b.reshape(
        mean, small
    )


def _softmax(b: Lowering, c: Call) -> Value:
    if not c.value(0).shape:
        x = _in_type(b, c, c.value(0))
        return b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, x, x))
    return b.softmax(_in_type(b, c, c.value(0)), c.integer(1))


def _rms_norm(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    return b.rms_norm(x, c.optional(2), float(c.number(3, _EPSILON[x.dtype])), len(c.integers(1)))


def _layer_norm(b: Lowering, c: Call) -> Value:
    """``op(x, shape, weight, bias, eps, …)``; the statistics that native_layer_norm also returns
    must be unused.
    """
    if any(c.used[1:]):
        raise Unsupported("the mean or the inverse deviation of native_layer_norm")
    x, gain, bias = c.value(0), c.optional(2), c.optional(3)
    y = b.layer_norm(
        x, gain, None if gain is None else bias, float(c.number(4)), len(c.integers(1))
    )
    return b.binary(BinaryFn.ADD, y, bias) if gain is None and bias is not None else y


def _group_norm(b: Lowering, c: Call) -> Value:
    """``native_group_norm(x, weight, bias, N, C, points, groups, eps)``; the statistics that it
    also returns must be unused.
    """
    if any(c.used[1:]):
        raise Unsupported("the mean or the inverse deviation of native_group_norm")
    x, gain, bias, groups = c.value(0), c.optional(1), c.optional(2), c.integer(6)
    batch, channels = x.shape[:2]
    size = x.type.size // (batch * groups)
    wide = DType.F64 if x.dtype is DType.F64 else DType.F32
    y = b.layer_norm(b.reshape(b.typed(x, wide), (batch, groups, size)), eps=float(c.number(7)))
    y = b.reshape(y, x.shape)
    for fn, v in ((BinaryFn.MUL, gain), (BinaryFn.ADD, bias)):
        if v is not None:
            column = b.reshape(b.typed(v, wide), (channels, *(1 for _ in x.shape[2:])))
            y = b.binary(fn, y, column)
    return b.typed(y, x.dtype)


NORMS: dict[str, Row] = {
    "aten.sum": _sum_all,
    "aten.sum.dim_IntList": _sum,
    "aten.mean": _mean_all,
    "aten.mean.dim": _mean,
    "aten.var.correction": lambda b, c: _variance(b, c)[0],
    "aten.var_mean.correction": _variance,
    "aten.softmax.int": _softmax,
    "aten._softmax": _softmax,
    "aten.rms_norm": _rms_norm,
    "aten.layer_norm": _layer_norm,
    "aten.native_layer_norm": _layer_norm,
    "aten.native_group_norm": _group_norm,
}
"""Torch ops that sum over dimensions, or normalise by such sums."""
