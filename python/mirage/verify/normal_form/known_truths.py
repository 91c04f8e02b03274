"""Known whole numbers and truth values: masks that are true everywhere, and counts of them."""

from __future__ import annotations

import numpy as np

from mirage.semantics.bounds.integer_ranges import may_wrap, range_of
from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.scalar import UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value
from mirage.verify.normal_form.one_of_a_row import before_reshape
from mirage.verify.normal_form.reading import Reading

_COMPARISONS = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)


def known_rule(reading: Reading, op: Op) -> Value | None:
    """Return the result of an op on known numbers; None for other ops."""
    (result, *others) = op.results
    if others or not isinstance(op, Elementwise | Contraction) or not op.operands:
        return None
    if op.function is BinaryFn.KEEP:
        mask, x = op.operands
        answer = reading.is_true(mask)
        if answer is not None and x.shape == result.shape:
            return x if answer else _number(reading, 0.0, result)
        if x.shape == result.shape and _is_where_not_zero(reading, mask, x):
            return x
    if op.function in (BinaryFn.MAX, BinaryFn.MIN):
        for x, other in (op.operands, op.operands[::-1]):
            (low, high), (least, most) = reading.range(x), reading.range(other)
            decided = low >= most if op.function is BinaryFn.MAX else high <= least
            if decided and x.shape == result.shape:
                return x
    if op.function is BinaryFn.ADD:
        for x, other in (op.operands, op.operands[::-1]):
            if x.type == result.type and reading.certain.number(other) == 0:
                return x
    if op.function is BinaryFn.MUL:
        for x, other in (op.operands, op.operands[::-1]):
            factor = reading.certain.number(other)
            if factor == 1 and x.type == result.type:
                return x
            if factor == 0 and reading.certain.is_finite(x, total=True):
                return _number(reading, 0.0, result)
    if isinstance(op, Contraction) and len(op.operands) == 1:
        (x,) = op.operands
        return x if x.type == result.type else _of_ranges(reading, op)
    if op.function is UnaryFn.NOT:
        inner = reading.makers.get(reading.source(op.operands[0]))
        if inner is not None and inner.function is UnaryFn.NOT:
            truth = reading.source(inner.operands[0])
            return truth if truth.dtype is DType.I1 else None
    if op.function in (BinaryFn.AND, BinaryFn.OR):
        # a known operand may leave the other one
        for x, other in (op.operands, op.operands[::-1]):
            if x.shape == result.shape and reading.is_true(other) is (op.function is BinaryFn.AND):
                return x
    if op.function is BinaryFn.REMAINDER and _is_below(reading, *op.operands):
        x = op.operands[0]
        return x if x.shape == result.shape else None
    if op.function is UnaryFn.BIAS and reading.is_true(op.operands[0]):
        return _number(reading, 0.0, result)
    return _of_ranges(reading, op)


def _of_ranges(reading: Reading, op: Op) -> Value | None:
    """Return the only number that a result can be, if its range has no other."""
    (result,) = op.results
    low, high = range_of(op, result, [reading.range(v) for v in op.operands])
    if low == high and result.dtype is not DType.I1:
        return _number(reading, low, result)
    return None


def masked_product_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a product with truth values as a masked value, if that is a number
    wherever the mask is false, too; None for other ops."""
    if op.function is not BinaryFn.MUL:
        return None
    for x, other in (op.operands, op.operands[::-1]):
        mask = before_casts(reading, other)
        masks = mask.dtype is DType.I1 and x.shape == op.results[0].shape
        if masks and reading.certain.is_finite(x, total=True):
            return reading.write(lambda b, m=mask, x=x: b.binary(BinaryFn.KEEP, m, x))
    return None


def masked_truths_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a number that is 1 where a truth value is true, and that a mask keeps, as
    the conjunction of both; None for other ops."""
    if op.function is not BinaryFn.KEEP:
        return None
    mask, truth = (before_casts(reading, v) for v in op.operands)
    if mask.dtype is not DType.I1 or truth.dtype is not DType.I1:
        return None
    return reading.write(lambda b: b.binary(BinaryFn.AND, mask, truth))


def outer_mask_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a function that is zero at zero, of a masked value, as the masked value
    of the function; None for other ops."""
    (result, *others) = op.results
    if others or not isinstance(op, Elementwise) or not op.operands:
        return None
    kept = [_kept(reading, v) for v in op.operands]
    masks = {k[0] for k in kept if k is not None}
    if len(masks) != 1 or any(v.shape != result.shape for v in masks):
        return None
    if isinstance(op.function, UnaryFn):
        applies = UNARY[op.function].zero_at_zero
    else:
        rest = [v for v, k in zip(op.operands, kept, strict=True) if k is None]
        applies = op.function is BinaryFn.MUL and all(
            reading.certain.is_finite(v, total=True) for v in rest
        )
    if not applies:
        return None
    (mask,) = masks
    inside = [v if k is None else k[1] for v, k in zip(op.operands, kept, strict=True)]
    value = reading.apply(op, tuple(inside))
    return reading.write(lambda b: b.binary(BinaryFn.KEEP, mask, value))


def compared_truth_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a comparison of a truth value, as a number, or of a number that a mask
    keeps, with a known number: as the truth value or its opposite. None for other ops."""
    if op.function not in _COMPARISONS or len(op.operands) != 2:
        return None
    for place in (0, 1):
        truth, kept = _truth_and_number(reading, op.operands[place])
        number = reading.certain.number(op.operands[1 - place])
        if truth is None or number is None or truth.shape != op.results[0].shape:
            continue
        numbers = np.array([0.0, kept]), np.array(float(number))
        given = numbers if place == 0 else numbers[::-1]
        (found,) = op.compute(Float64(), [(v,) for v in given], 0, (2,))
        if list(found) == [0.0, 1.0]:
            return truth
        if list(found) == [1.0, 0.0]:
            return reading.write(lambda b, t=truth: b.unary(UnaryFn.NOT, t))
    return None


def _truth_and_number(reading: Reading, x: Value) -> tuple[Value | None, float]:
    """Return the truth value, and the number that ``x`` is where it is true; it is zero elsewhere.
    None if it is no such value."""
    source = before_casts(reading, x)
    if source.dtype is DType.I1:
        return source, 1.0
    kept = _kept(reading, source)
    number = None if kept is None else reading.certain.number(kept[1])
    if kept is None or number is None:
        return None, 0.0
    mask = reading.source(kept[0])
    return (mask if mask.dtype is DType.I1 else None), float(number)


def _kept(reading: Reading, x: Value) -> tuple[Value, Value] | None:
    """Return the mask and the operand of a masked value."""
    op = reading.makers.get(x)
    if op is None or op.function is not BinaryFn.KEEP:
        return None
    return op.operands[0], op.operands[1]


def factor_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a masked value as a product with the truth values, if it is a number
    wherever the mask is false, too; None for other ops."""
    if op.function is not BinaryFn.KEEP:
        return None
    mask, x = op.operands
    if x.dtype is DType.I1 or not reading.certain.is_finite(x, total=True):
        return None
    made = reading.makers.get(mask)
    if made is None or made.function is not UnaryFn.NOT:
        return reading.write(lambda b: b.binary(BinaryFn.MUL, b.cast(mask, x.dtype), x))
    (opposite,) = made.operands

    def left(b: Builder) -> Value:
        factor = b.binary(BinaryFn.SUB, b.constant(1, x.dtype), b.cast(opposite, x.dtype))
        return b.binary(BinaryFn.MUL, factor, x)

    return reading.write(left)


def whole_cast_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a conversion to integers that changes no number, because its operand has
    known whole numbers; None for other ops."""
    if not isinstance(op, Elementwise) or not op.cuts:
        return None
    (x,), dtype = op.operands, op.results[0].dtype
    known = np.isfinite(reading.range(x)).all()
    if not known or may_wrap(op, {x: reading.range(x)}):
        return None
    return reading.write(lambda b: b.cast(x, dtype, whole=True))


def before_casts(reading: Reading, x: Value) -> Value:
    """Return the value that ``x`` is a cast of, in the shape of ``x``."""
    while (op := reading.makers.get(source := reading.source(x))) is not None and op.renames:
        inner = before_reshape(reading, op)
        if inner is None:
            break
        x = inner
    return source


def _is_below(reading: Reading, x: Value, count: Value) -> bool:
    """Return whether whole numbers are certainly at least 0 and below other ones."""
    (low, high), (least, _) = reading.range(x), reading.range(count)
    return reading.is_whole(x) and low >= 0 and high < least


def _is_where_not_zero(reading: Reading, mask: Value, x: Value) -> bool:
    """Return whether a truth value that keeps ``x`` says that ``x`` is not zero."""
    op = reading.makers.get(mask)
    if op is None or op.function is not BinaryFn.NE or x not in op.operands:
        return False
    return any(reading.certain.number(v) == 0 for v in op.operands)


def _number(reading: Reading, number: float, like: Value) -> Value:
    """Return a tensor whose elements are all the same number."""
    found = reading.write(lambda b: b.constant(number, like.dtype))
    return found if not like.shape else reading.write(lambda b: b.broadcast(found, like.shape))
