"""Known whole numbers and truth values: masks that are true everywhere, and counts of them."""

from __future__ import annotations

from mirage.semantics.bounds.integer_ranges import range_of
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value
from mirage.verify.normal_form.reading import Reading


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
    if op.function in (BinaryFn.AND, BinaryFn.OR):
        # what is known of one operand leaves the other one
        for x, other in (op.operands, op.operands[::-1]):
            if x.shape == result.shape and reading.is_true(other) is (op.function is BinaryFn.AND):
                return x
    if op.function is UnaryFn.BIAS and reading.is_true(op.operands[0]):
        return _number(reading, 0.0, result)
    low, high = range_of(op, result, [reading.range(v) for v in op.operands])
    if low == high and result.dtype is not DType.I1:
        return _number(reading, low, result)
    return None


def _number(reading: Reading, number: float, like: Value) -> Value:
    """Return a tensor whose elements are all the same number."""
    found = reading.write(lambda b: b.constant(number, like.dtype))
    return found if not like.shape else reading.write(lambda b: b.broadcast(found, like.shape))
