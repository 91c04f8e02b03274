"""What is known of whole numbers and truth values: what a mask keeps that is true everywhere, how
many are counted of what is.
"""

from __future__ import annotations

from mirage.semantics.bounds.integer_ranges import range_of
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value
from mirage.verify.normal_form.reading import Reading


def known_rule(reading: Reading, op: Op) -> Value | None:
    """What an op gives of numbers that are known."""
    (result, *others) = op.results
    if others or not isinstance(op, Elementwise | Contraction) or not op.operands:
        return None
    if op.function is BinaryFn.KEEP:
        mask, x = op.operands
        answer = reading.is_true(mask)
        if answer is not None and x.shape == result.shape:
            return x if answer else _number(reading, 0.0, result)
    if op.function is UnaryFn.BIAS and reading.is_true(op.operands[0]):
        return _number(reading, 0.0, result)
    low, high = range_of(op, result, [reading.range(v) for v in op.operands])
    if low == high and result.dtype is not DType.I1:
        return _number(reading, low, result)
    return None


def _number(reading: Reading, number: float, like: Value) -> Value:
    """A tensor all of whose elements are a number."""
    found = reading.write(lambda b: b.constant(number, like.dtype))
    return found if not like.shape else reading.write(lambda b: b.broadcast(found, like.shape))
