"""Rows of comparisons, logic and choices."""

from __future__ import annotations

import math

from mirage.frontend.torch_import.rows.lowering import Lowering, Row, check_held
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import broadcast_shapes
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value


def _compare(fn: BinaryFn, *, swap: bool = False) -> Row:
    """``a fn b``; with ``swap``, ``b fn a`` (``a > b`` is ``b < a``)."""

    def row(b: Lowering, c: Call) -> Value:
        x, y = c.value(0), c.operand(1)
        if isinstance(y, Value):
            return b.binary(fn, y, x) if swap else b.binary(fn, x, y)
        if x.dtype.is_integer and math.isfinite(y) and int(y) != y:
            return _beside(b, fn, x, y, swap)
        return b.combine(fn, y, x) if swap else b.combine(fn, x, y)

    return row


def _beside(b: Lowering, fn: BinaryFn, x: Value, y: Number, swap: bool) -> Value:
    """Compare integers with a number between two integers, by comparing with the lower one."""
    if fn in (BinaryFn.EQ, BinaryFn.NE):
        return b.spread(b.constant(0 if fn is BinaryFn.EQ else 1, DType.I1), x.shape)
    below = math.floor(y)
    x = b.cast(x, DType.F32) if x.dtype is DType.I1 else x
    return b.combine(BinaryFn.LT, below, x) if swap else b.combine(BinaryFn.LE, x, below)


def _logic(fn: BinaryFn, *, bits: bool = False) -> Row:
    """Apply a logical function to truth values; other numbers are true unless they are zero
    (``bits``: they are not supported)."""

    def row(b: Lowering, c: Call) -> Value:
        values = [c.value(i) for i in (0, 1)]
        if bits and any(v.dtype is not DType.I1 for v in values):
            raise Unsupported("bits of integers")
        x, y = (truth(b, v) for v in values)
        return b.binary(fn, x, y)

    return row


def truth(b: Lowering, x: Value) -> Value:
    """Return whether each element is nonzero."""
    return x if x.dtype is DType.I1 else b.combine(BinaryFn.NE, x, 0)


def _not(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    if c.op == "aten.bitwise_not" and x.dtype is not DType.I1:
        return b.combine(BinaryFn.SUB, -1, x)
    return b.unary(UnaryFn.NOT, truth(b, x))


def bias(b: Lowering, mask: Value, dtype: DType) -> Value:
    """Return the bias that a mask of truth values adds to scores: zero where it is true, minus
    infinity elsewhere."""
    b.adds_infinity = True
    return b.unary(UnaryFn.BIAS, b.cast(mask, dtype))


def choose(
    b: Lowering, condition: Value, x: Value | Number, y: Value | Number, dtype: DType
) -> Value:
    """Return ``x`` where the condition holds and ``y`` elsewhere, as a sum with one zero summand:
    nothing is rounded, and elements that are not chosen may be infinite or NaN."""
    known = b.number_of(condition)
    if known is not None:
        chosen = x if known else y
        shape = condition.shape
        for v in (x, y):
            shape = broadcast_shapes(shape, v.shape) if isinstance(v, Value) else shape
        if not isinstance(chosen, Value):
            return b.spread(b.constant(chosen, dtype), shape)
        return b.spread(b.typed(chosen, dtype), shape)
    parts = [
        part
        for part in (
            _part(b, condition, x, dtype),
            _part(b, b.unary(UnaryFn.NOT, condition), y, dtype),
        )
        if part is not None
    ]
    if not parts:
        return b.spread(b.constant(0, dtype), condition.shape)
    if len(parts) == 1:
        return parts[0]
    return b.binary(BinaryFn.OR if dtype is DType.I1 else BinaryFn.ADD, *parts)


def _part(b: Lowering, condition: Value, x: Value | Number, dtype: DType) -> Value | None:
    """Return ``x`` where the condition holds and zero elsewhere; None for zero."""
    if isinstance(x, Value):
        number = b.number_of(x)
        if number is None or x.shape:
            if number is None:
                keep = BinaryFn.AND if dtype is DType.I1 else BinaryFn.KEEP
                return b.binary(keep, condition, b.typed(x, dtype))
            # a number with its own shape: broadcast where it is chosen
            part = _part(b, condition, number, dtype)
            shape = broadcast_shapes(condition.shape, x.shape)
            return b.spread(b.constant(0, dtype) if part is None else part, shape)
        x = number
    if math.isnan(x):
        raise Unsupported("a choice of NaN")
    if x == 0:
        return None
    if math.isinf(x):
        infinite = bias(b, b.unary(UnaryFn.NOT, condition), dtype)
        return infinite if x < 0 else b.unary(UnaryFn.NEG, infinite)
    if dtype.is_integer:
        check_held(x, dtype)
    if dtype.is_integer and int(x) != x:
        raise Unsupported(f"a choice of {float(x):g} among integers")
    number = b.typed(condition, dtype)
    return number if x == 1 else b.combine(BinaryFn.MUL, number, x)


def _where(b: Lowering, c: Call) -> Value:
    return choose(b, c.value(0), c.operand(1), c.operand(2), c.result.dtype)


def _masked_fill(b: Lowering, c: Call) -> Value:
    number = c.operand(2)
    if not isinstance(number, Value):
        check_held(number, c.result.dtype)
    return choose(b, c.value(1), number, c.value(0), c.result.dtype)


def _triangle(upper: bool) -> Row:
    """``op(x, diagonal)``: zero below (or above) a diagonal."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        shift = c.integer(1) if c.arg(1) is not None else 0
        rows, cols = b.grid(*x.shape[-2:])
        moved = rows if not shift else b.combine(BinaryFn.ADD, rows, shift)
        keep = b.binary(BinaryFn.LE, moved, cols) if upper else b.binary(BinaryFn.LE, cols, moved)
        return b.binary(BinaryFn.KEEP, keep, x)

    return row


COMPARISONS: dict[str, Row] = {
    **{
        f"aten.{name}.{kind}": _compare(fn, swap=swap)
        for name, fn, swap in (
            ("lt", BinaryFn.LT, False),
            ("le", BinaryFn.LE, False),
            ("gt", BinaryFn.LT, True),
            ("ge", BinaryFn.LE, True),
            ("eq", BinaryFn.EQ, False),
            ("ne", BinaryFn.NE, False),
        )
        for kind in ("Tensor", "Scalar")
    },
    "aten.bitwise_and.Tensor": _logic(BinaryFn.AND, bits=True),
    "aten.bitwise_or.Tensor": _logic(BinaryFn.OR, bits=True),
    "aten.bitwise_xor.Tensor": _logic(BinaryFn.XOR, bits=True),
    "aten.bitwise_not": _not,
    "aten.logical_and": _logic(BinaryFn.AND),
    "aten.logical_or": _logic(BinaryFn.OR),
    "aten.logical_xor": _logic(BinaryFn.XOR),
    "aten.logical_not": _not,
    "aten.where.self": _where,
    "aten.where.ScalarOther": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.Scalar": _where,
    "aten.masked_fill.Scalar": _masked_fill,
    "aten.masked_fill.Tensor": _masked_fill,
    "aten.tril": _triangle(upper=False),
    "aten.triu": _triangle(upper=True),
}
"""Torch ops on positions and truth values."""
