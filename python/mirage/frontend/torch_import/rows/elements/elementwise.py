"""Rows of element-by-element torch ops."""

from __future__ import annotations

import math

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, check_held, unary_row, wide
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value


def _operand(b: Lowering, c: Call, index: int) -> Value | Number:
    """Return a tensor or number operand; integers in the type of the result, as PyTorch computes
    with them."""
    x = c.operand(index)
    if isinstance(x, Value) and x.dtype.is_integer:
        return b.typed(x, c.result.dtype)
    if c.result.dtype.is_integer and not isinstance(x, Value) and int(x) != x:
        raise Unsupported(f"an integer and {float(x):g}")
    return x


_LOGIC = {
    BinaryFn.ADD: BinaryFn.OR,
    BinaryFn.MUL: BinaryFn.AND,
    BinaryFn.MAX: BinaryFn.OR,
    BinaryFn.MIN: BinaryFn.AND,
}
"""The logical functions that arithmetic on truth values means."""


def _combine(fn: BinaryFn) -> Row:
    def row(b: Lowering, c: Call) -> Value:
        if c.result.dtype is DType.I1:
            logic = _LOGIC.get(fn)
            if logic is None:
                raise Unsupported("arithmetic with truth values")
            return b.combine(logic, c.value(0), c.value(1))
        return b.combine(fn, _operand(b, c, 0), _operand(b, c, 1))

    return row


def _scaled(fn: BinaryFn, *, swap: bool = False) -> Row:
    """``a ± alpha * b``; with ``swap``, ``b ± alpha * a``."""

    def row(b: Lowering, c: Call) -> Value:
        if c.result.dtype is DType.I1:
            if fn not in _LOGIC or not c.number(2, 1.0):
                raise Unsupported("arithmetic with truth values")
            return b.combine(_LOGIC[fn], c.operand(0), c.operand(1))
        x, y = _operand(b, c, 1 if swap else 0), _operand(b, c, 0 if swap else 1)
        alpha = c.number(2, 1.0)
        if alpha != 1.0:
            y = b.combine(BinaryFn.MUL, y, alpha) if isinstance(y, Value) else y * alpha
        return b.combine(fn, x, y)

    return row


def _power(b: Lowering, c: Call) -> Value:
    x, y = _operand(b, c, 0), _operand(b, c, 1)
    if c.result.dtype.is_integer and (b.range_of(y)[0] if isinstance(y, Value) else y) < 0:
        raise Unsupported("a power of integers whose exponent may be less than zero")
    return (
        b.power(x, y)
        if isinstance(x, Value) and not isinstance(y, Value)
        else b.combine(BinaryFn.POW, x, y)
    )


def _gelu(b: Lowering, c: Call) -> Value:
    return b.unary(UnaryFn.GELU_TANH if c.arg(1) == "tanh" else UnaryFn.GELU, c.value(0))


def _clamp(low: int | None, high: int | None) -> Row:
    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        for fn, index in ((BinaryFn.MAX, low), (BinaryFn.MIN, high)):
            if index is not None and c.arg(index) is not None:
                limit = _operand(b, c, index)
                if not isinstance(limit, Value):
                    check_held(limit, c.result.dtype)
                x = b.combine(fn, x, limit)
        return x

    return row


def _exp2(b: Lowering, c: Call) -> Value:
    return b.unary(UnaryFn.EXP, b.combine(BinaryFn.MUL, c.value(0), math.log(2.0)))


def _log1p(b: Lowering, c: Call) -> Value:
    """Computed in f32 at least, also for integers."""
    return b.typed(b.unary(UnaryFn.LOG1P, wide(b, c.value(0))), c.result.dtype)


def _softplus(b: Lowering, c: Call) -> Value:
    """``op(x, beta, threshold)`` as ``(max(y, 0) + log1p(exp(-|y|))) / beta`` with ``y = beta
    x``, which overflows nowhere and loses no digits of small results. Where ``y`` is above the
    threshold PyTorch returns ``x``; from a threshold of 20 on that differs by less than f32
    rounding.
    """
    x, beta, threshold = c.value(0), c.number(1, 1.0), c.number(2, 20.0)
    if beta == 0:
        raise Unsupported("beta 0")
    y = wide(b, x)
    scaled = y if beta == 1 else b.combine(BinaryFn.MUL, y, beta)
    small = b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, b.unary(UnaryFn.ABS, scaled)))
    tail = b.unary(UnaryFn.LOG1P, small)
    tail = tail if beta == 1 else b.combine(BinaryFn.MUL, tail, 1 / beta)
    over = b.unary(UnaryFn.RELU, y if beta > 0 else scaled)
    over = over if beta > 0 else b.combine(BinaryFn.MUL, over, 1 / beta)
    soft = b.binary(BinaryFn.ADD, over, tail)
    if threshold < 20:
        soft = choose(b, b.combine(BinaryFn.LT, threshold, scaled), y, soft, y.dtype)
    return b.typed(soft, x.dtype)


def _logit(b: Lowering, c: Call) -> Value:
    """``op(x, eps)``: the logarithm of ``x / (1 - x)``, of numbers from ``eps`` to ``1 - eps``."""
    x = wide(b, c.value(0))
    if c.arg(1) is not None:
        least = c.number(1)
        x = b.combine(BinaryFn.MIN, b.combine(BinaryFn.MAX, x, least), 1 - least)
    odds = b.binary(BinaryFn.DIV, x, b.combine(BinaryFn.SUB, 1, x))
    return b.typed(b.unary(UnaryFn.LOG, odds), c.result.dtype)


def _fill(argument: int | None, number: Number = 0.0) -> Row:
    """Fill a tensor with a constant; its value is an argument or fixed."""
    return lambda b, c: b.filled(number if argument is None else c.number(argument), c.result)


def _convert(b: Lowering, c: Call) -> Value:
    x, dtype = c.value(0), c.result.dtype
    if dtype is DType.I1 and x.dtype is not dtype:
        return b.combine(BinaryFn.NE, x, 0)
    return b.typed(x, dtype)


def _dropout(b: Lowering, c: Call) -> Value:
    if c.arg(2):
        raise Unsupported("dropout in training; call .eval() on the module first")
    return c.value(0)


def _copy(b: Lowering, c: Call) -> Value:
    """Return a copy of a tensor; the import removes it again if that makes no difference."""
    return b.cast(c.value(0), c.value(0).dtype)


def _same(b: Lowering, c: Call) -> Value:
    return c.value(0)


ELEMENTWISE: dict[str, Row] = {
    # Functions that one overload of PyTorch computes, without further arguments.
    **{
        f"aten.{row.call[0].removesuffix('.default')}": unary_row(fn)
        for fn, row in UNARY.items()
        if not row.call[1] and not row.logic
    },
    "aten.gelu": _gelu,
    "aten.exp2": _exp2,
    "aten.log1p": _log1p,
    "aten.logit": _logit,
    "aten.softplus": _softplus,
    "aten.add.Tensor": _scaled(BinaryFn.ADD),
    "aten.add.Scalar": _scaled(BinaryFn.ADD),
    "aten.sub.Tensor": _scaled(BinaryFn.SUB),
    "aten.sub.Scalar": _scaled(BinaryFn.SUB),
    "aten.rsub.Tensor": _scaled(BinaryFn.SUB, swap=True),
    "aten.rsub.Scalar": _scaled(BinaryFn.SUB, swap=True),
    "aten.mul.Tensor": _combine(BinaryFn.MUL),
    "aten.mul.Scalar": _combine(BinaryFn.MUL),
    "aten.div.Tensor": _combine(BinaryFn.DIV),
    "aten.div.Scalar": _combine(BinaryFn.DIV),
    "aten.maximum": _combine(BinaryFn.MAX),
    "aten.minimum": _combine(BinaryFn.MIN),
    "aten.max.other": _combine(BinaryFn.MAX),
    "aten.min.other": _combine(BinaryFn.MIN),
    "aten.pow.Tensor_Scalar": _power,
    "aten.pow.Tensor_Tensor": _power,
    "aten.pow.Scalar": _power,
    "aten.clamp": _clamp(1, 2),
    "aten.clamp.Tensor": _clamp(1, 2),
    "aten.clamp_min": _clamp(1, None),
    "aten.clamp_max": _clamp(None, 1),
    "aten.hardtanh": _clamp(1, 2),
    "aten.full": _fill(1),
    "aten.full_like": _fill(1),
    "aten.scalar_tensor": _fill(0),
    "aten.zeros": _fill(None, 0.0),
    "aten.zeros_like": _fill(None, 0.0),
    # Uninitialised memory may hold any number, for example zero.
    "aten.empty.memory_format": _fill(None, 0.0),
    "aten.new_empty": _fill(None, 0.0),
    "aten.empty_like": _fill(None, 0.0),
    "aten.empty_permuted": _fill(None, 0.0),
    "aten.new_zeros": _fill(None, 0.0),
    "aten.new_ones": _fill(None, 1.0),
    "aten.new_full": _fill(2),
    "aten.ones": _fill(None, 1.0),
    "aten.ones_like": _fill(None, 1.0),
    "aten.to.dtype": _convert,
    "aten.to.dtype_layout": _convert,
    "aten.to.device": _convert,
    "aten.to.other": _convert,
    "aten.type_as": _convert,
    "aten._to_copy": _convert,
    "prims.convert_element_type": _convert,
    "aten.dropout": _dropout,
    "aten.native_dropout": _dropout,
    "aten.clone": _copy,
    "aten.contiguous": _same,
    "aten.alias": _same,
    "aten.detach": _same,
    "aten.lift_fresh_copy": _same,
}
"""Torch ops that work element by element, conversions and constants."""
