"""Sums with weights that have one value where a truth value is true, and another one elsewhere.

Smoothed labels are such weights: ``sum over j of (j == t ? a : b) x[j]`` is ``(a - b)`` times the
element that is picked, plus ``b`` times the sum of the row. The weights may be computed in any way
from the truth value and numbers: from a cast of it, by a choice, or by a scatter into a row of
zeros.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import as_number
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Op, Value, View
from mirage.verify.normal_form.one_of_a_row import before_reshape, picked_sum
from mirage.verify.normal_form.reading import Reading

_DEEPEST = 12
"""The most ops between a truth value and a weight."""

_Exact = Callable[..., Any]

_FUNCTIONS: dict[object, _Exact] = {
    BinaryFn.ADD: operator.add, BinaryFn.SUB: operator.sub, BinaryFn.MUL: operator.mul,
    BinaryFn.MAX: max, BinaryFn.MIN: min, BinaryFn.LT: operator.lt, BinaryFn.LE: operator.le,
    BinaryFn.EQ: operator.eq, BinaryFn.NE: operator.ne, UnaryFn.NEG: lambda x: 0 - x,
    UnaryFn.NOT: operator.not_, BinaryFn.KEEP: operator.mul,
}  # fmt: skip
"""The functions whose results for exact numbers are exact numbers."""


@dataclass(frozen=True)
class TwoValues:
    """``yes`` where a truth value is true, and ``no`` elsewhere; a number if there is no truth
    value."""

    truth: Value | None
    yes: Fraction
    no: Fraction


def weighed_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum with such weights; None for other ops."""
    if op.function is not ReduceFn.SUM or not isinstance(op, Contraction):
        return None
    product = reading.makers.get(op.operands[0])
    if product is None or product.function is not BinaryFn.MUL:
        return None
    for weights, x in (product.operands, product.operands[::-1]):
        found = two_values(reading, weights)
        if found is None or found.truth is None or found.no == 0 or found.yes == found.no:
            continue
        truth, shape = found.truth, product.results[0].shape
        if truth.shape == shape and reading.certain.is_finite(x):
            return _in_two_sums(reading, op, truth, found, x)
    return None


def _in_two_sums(
    reading: Reading, op: Contraction, truth: Value, found: TwoValues, x: Value
) -> Value:
    """Write a sum as that of the masked elements, of which there may be only one, and that of all
    elements."""
    (dims,) = op.over
    some = picked_sum(reading, truth, x, dims)
    if some is None:
        kept = reading.write(lambda b: b.binary(BinaryFn.KEEP, truth, x))
        some = reading.write(lambda b: b.reduce(ReduceFn.SUM, kept, dims))

    def written(b: Builder) -> Value:
        wide = x if x.shape == truth.shape else b.broadcast(x, truth.shape)
        every = b.reduce(ReduceFn.SUM, wide, dims)
        first = b.binary(BinaryFn.MUL, some, b.constant(found.yes - found.no))
        return b.binary(BinaryFn.ADD, first, b.binary(BinaryFn.MUL, every, b.constant(found.no)))

    return reading.write(written)


def two_values(reading: Reading, x: Value, depth: int = 0) -> TwoValues | None:
    """Return the two values of ``x``, or None if it has others."""
    if x in reading.constants:
        number = as_number(reading.constants[x])
        return TwoValues(None, number, number) if isinstance(number, Fraction) else None
    op = reading.makers.get(x)
    found = None if op is None or depth >= _DEEPEST else _computed(reading, op, depth + 1)
    if found is None and x.dtype is DType.I1:
        return TwoValues(x, Fraction(1), Fraction(0))
    return found


def _computed(reading: Reading, op: Op, depth: int) -> TwoValues | None:
    known: list[TwoValues] = []
    for v in op.operands:
        part = two_values(reading, v, depth)
        if part is None:
            return None
        known.append(part)
    truths = {p.truth for p in known if p.truth is not None}
    if not known or len(truths) > 1:
        return None
    truth, shape = next(iter(truths), None), op.results[0].shape
    if truth is not None and truth.shape != (
        op.operands[0].shape if isinstance(op, View) else shape
    ):
        return None  # elements are repeated
    if isinstance(op, View):
        seen = None if truth is None else _viewed(reading, op, truth)
        return TwoValues(seen, known[0].yes, known[0].no)
    if isinstance(op, Contraction):  # over a dimension of size 1
        alone = len(op.operands) == 1 and op.operands[0].shape == shape
        return known[0] if alone else None
    if is_cast(op):
        return known[0]
    compute = _FUNCTIONS.get(op.function)
    if compute is None:
        return None
    yes, no = (Fraction(compute(*vs)) for vs in zip(*((p.yes, p.no) for p in known), strict=True))
    return TwoValues(truth, yes, no)


def _viewed(reading: Reading, view: View, truth: Value) -> Value:
    seen = reading.apply(view, (truth,))
    made = reading.makers.get(seen)
    inside = before_reshape(reading, made) if made is not None and made.renames else None
    return seen if inside is None else inside
