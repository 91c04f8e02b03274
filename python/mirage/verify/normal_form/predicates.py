"""Comparisons and logic in a normal form, so that a mask may be written in many ways.

``a < b`` becomes ``a - b < 0``, and ``a <= b`` of whole numbers becomes ``a - b - 1 < 0``. Whole
numbers are equal if neither is less. A comparison of truth values becomes logic, whether they are
held as truth values or, as in tiles, as numbers. A negated ``<`` becomes ``>=``. A conjunction of
truth values is their minimum and a disjunction their maximum, which are associative, commutative
and idempotent in the arithmetics. A minimum is a maximum of negatives. The result of any other
comparison remains an uninterpreted function. A comparison with infinity becomes a comparison with a
number that no float reaches: the function may be any, so it may be the one that results from
infinity too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from itertools import product
from typing import Any

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    Movement,
    Op,
    Source,
    TensorType,
    Value,
    View,
)

Rule = Callable[[Builder], Value]
_BEYOND = Fraction(2) ** 1100
"""A number larger than any float; the double that is nearest to it is infinity."""


def predicate_rule(
    op: Op, makers: Mapping[Value, Op], constants: Mapping[Value, Number]
) -> Rule | None:
    """Return how to write a comparison or a logical function; None for other ops. ``makers`` are
    the ops before this one, as they were written."""
    known = _Known(makers, constants)
    if op.function is BinaryFn.MIN:
        return lambda b: _least(b, *op.operands)
    if op.function is BinaryFn.KEEP:
        return known.kept_of_kept(op)
    if op.function is BinaryFn.ADD:
        return known.kept_and_masked(op)
    if op.function is UnaryFn.NOT:
        return lambda b: known.negated(b, op.operands[0])
    if op.function in _RULES:
        return lambda b: known.written(b, op)
    return None


Truth = tuple[Value, bool]
"""A truth value, or with True its negation."""


def truth_of(x: Value, makers: Mapping[Value, Op]) -> Truth | None:
    """Return the truth value whose elements ``x`` has, whatever its type; None if it may have other
    numbers."""
    numbers = {v: as_number(op.number) for v, op in makers.items() if op.number is not None}
    known = _Known(makers, numbers)
    found = known.truth(x)
    return found if known.is_truth(found[0]) else None


def masks_of(x: Value, makers: Mapping[Value, Op]) -> list[Truth]:
    """Return the truth values for which ``x`` is not minus infinity."""
    while (op := makers.get(x)) is not None and isinstance(op, Elementwise) and op.identity:
        x = op.operands[0]
    _, masks = _Known(makers, {}).without_masks(x)
    return [found for mask in masks if (found := truth_of(mask, makers)) is not None]


def masks_rule(op: Op, makers: Mapping[Value, Op]) -> Rule | None:
    """Return how to write a value to which minus infinity is added for several masks one after the
    other: as for their conjunction. None for other ops."""
    if op.function is not BinaryFn.ADD:
        return None
    x, masks = _Known(makers, {}).without_masks(op.result)
    if len(masks) < 2 or x.shape != op.result.shape:
        return None

    def written(b: Builder) -> Value:
        every = reduce(partial(_least, b), masks)
        return b.binary(BinaryFn.ADD, x, b.unary(UnaryFn.BIAS, every))

    return written


def _least(b: Builder, x: Value, y: Value) -> Value:
    """Write the minimum of two values as their sum minus their maximum."""
    least = b.binary(BinaryFn.MAX, b.unary(UnaryFn.NEG, x), b.unary(UnaryFn.NEG, y))
    return b.unary(UnaryFn.NEG, least)


def moved(b: Builder, x: Value, view: View) -> Value:
    """Write a view of another value, of the shape that ``view`` reads."""
    result = Value(TensorType(view.result.shape, x.dtype))
    b.ops.append(replace(view, operands=(x,), results=(result,)))
    return result


_LOGIC = (BinaryFn.AND, BinaryFn.OR, BinaryFn.XOR)
_RULES = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE, *_LOGIC)
_WHOLE = (
    UnaryFn.NEG,
    BinaryFn.ADD,
    BinaryFn.SUB,
    BinaryFn.MUL,
    BinaryFn.MAX,
    BinaryFn.MIN,
    BinaryFn.FLOOR_DIV,
    BinaryFn.REMAINDER,
)
"""Functions that give whole numbers for whole numbers."""


_EXACTLY: Mapping[object, Callable[..., Any]] = {
    UnaryFn.NEG: operator.neg,
    BinaryFn.ADD: operator.add,
    BinaryFn.SUB: operator.sub,
    BinaryFn.MUL: operator.mul,
    BinaryFn.MAX: max,
    BinaryFn.MIN: min,
}
"""Functions of a few known numbers, which are evaluated for each of them."""
_HOLDS: Mapping[BinaryFn, Callable[[Any, Any], bool]] = {
    BinaryFn.LT: operator.lt,
    BinaryFn.LE: operator.le,
    BinaryFn.EQ: operator.eq,
    BinaryFn.NE: operator.ne,
}
_TRUTHS = frozenset({Fraction(0), Fraction(1)})
_FEW = 8


class _Known:
    def __init__(self, makers: Mapping[Value, Op], constants: Mapping[Value, Number]) -> None:
        self.makers, self.constants = makers, constants
        self._few: dict[Value, frozenset[Fraction] | None] = {}

    def reached(self, b: Builder, x: Value) -> Value:
        """Return the operand of a comparison, with a number in place of infinity."""
        number = self.constants.get(x)
        if not isinstance(number, float) or not math.isinf(number):
            return x
        return b.constant(_BEYOND if number > 0 else -_BEYOND, x.dtype)

    def kept_of_kept(self, op: Op) -> Rule | None:
        """Merge two masks that are applied one after the other into their conjunction; the elements
        may be moved in between, if the inner mask has the shape of what it masks."""
        mask, kept = op.operands
        moves: list[View] = []
        while isinstance(view := self.makers.get(kept), View):
            moves.append(view)
            kept = view.operands[0]
        inner = self.makers.get(kept)
        if inner is None or inner.function is not BinaryFn.KEEP:
            return None
        other, x = inner.operands
        if not (self.is_truth(mask) and self.is_truth(other)):
            return None
        if moves and other.shape != x.shape:
            return None

        def merged(b: Builder) -> Value:
            there = [reduce(partial(moved, b), reversed(moves), v) for v in (other, x)]
            return b.binary(BinaryFn.KEEP, _least(b, mask, there[0]), there[1])

        return merged

    def kept_and_masked(self, op: Op) -> Rule | None:
        """Drop a mask from a value to which minus infinity is added wherever the mask removes
        something: the removed numbers make no difference there."""
        for kept, mask in (op.operands, op.operands[::-1]):
            given, outer = self.makers.get(kept), self.makers.get(mask)
            renamed = given is not None and given.renames
            inner = self.makers.get(given.operands[0]) if given and renamed else given
            if inner is None or outer is None or inner.function is not BinaryFn.KEEP:
                continue
            if outer.function is not UnaryFn.BIAS:
                continue
            x, shape = inner.operands[1], inner.results[0].shape
            one, other = (self.truth(v.operands[0]) for v in (inner, outer))
            if renamed:
                view = self.makers.get(other[0])
                renamed_too = view is not None and view.renames and other[0].shape == kept.shape
                if view is None or not renamed_too or not one[0].shape == x.shape == shape:
                    continue
                other = view.operands[0], other[1]
            if one == other and self.is_truth(one[0]):
                return lambda b, x=x, kept=kept, mask=mask, renamed=renamed: b.binary(
                    BinaryFn.ADD, b.reshape(x, kept.shape) if renamed else x, mask
                )
        return None

    def without_masks(self, x: Value) -> tuple[Value, list[Value]]:
        """Return ``x`` without the masks for which minus infinity is added to it, and these masks;
        the operand of an earlier mask is not examined."""
        masks: list[Value] = []
        while (op := self.makers.get(x)) is not None:
            if op.function is BinaryFn.KEEP and any(
                self.truth(op.operands[0]) == self.truth(mask) for mask in masks
            ):
                x = op.operands[1]
                continue
            if op.function is not BinaryFn.ADD:
                break
            first, second = map(self.makers.get, op.operands)
            if second is not None and second.function is UnaryFn.BIAS:
                x, mask = op.operands[0], second.operands[0]
            elif first is not None and first.function is UnaryFn.BIAS:
                x, mask = op.operands[1], first.operands[0]
            else:
                break
            masks.append(mask)
        return x, masks

    def truth(self, x: Value) -> Truth:
        """Return the truth value that ``x`` stands for, whatever its type, and whether ``x`` is its
        negation."""
        negative = False
        while (op := self.makers.get(x)) is not None:
            if op.function is UnaryFn.NOT and self.is_truth(op.operands[0]):
                negative = not negative
            elif not (isinstance(op, Elementwise) and op.identity):
                break
            x = op.operands[0]
        return x, negative

    def written(self, b: Builder, op: Op) -> Value:
        x, y = (self.reached(b, v) for v in op.operands)
        fn = op.function
        if fn is BinaryFn.LT:
            return self._less(b, x, y)
        if fn is BinaryFn.LE:
            return self._at_most(b, x, y)
        if fn is BinaryFn.EQ:
            return self._equal(b, x, y)
        if fn is BinaryFn.NE:
            return self._unequal(b, x, y)
        if not (self.is_truth(x) and self.is_truth(y)):
            assert isinstance(fn, BinaryFn)
            return b.binary(fn, x, y)
        if fn is BinaryFn.XOR:
            return self._unequal(b, x, y)
        return _least(b, x, y) if fn is BinaryFn.AND else b.binary(BinaryFn.MAX, x, y)

    def negated(self, b: Builder, x: Value) -> Value:
        """Return the negation of a truth value."""
        op = self.makers.get(x)
        fn = None if op is None else op.function
        if op is not None and fn is UnaryFn.NOT and self.is_truth(op.operands[0]):
            return op.operands[0]
        if isinstance(op, View):  # negate before the movement
            return moved(b, self.negated(b, op.operands[0]), op)
        if op is not None and len(op.operands) == 2:
            first, second = (self.reached(b, v) for v in op.operands)
            if fn is BinaryFn.LT:
                return self._at_most(b, second, first)
            if fn is BinaryFn.LE:
                return self._less(b, second, first)
            if fn is BinaryFn.EQ:
                return self._unequal(b, first, second)
            if fn is BinaryFn.NE:
                return self._equal(b, first, second)
            if fn in (BinaryFn.AND, BinaryFn.OR) and all(map(self.is_truth, op.operands)):
                opposite = self.negated(b, first), self.negated(b, second)
                if fn is BinaryFn.OR:
                    return _least(b, *opposite)
                return b.binary(BinaryFn.MAX, *opposite)
        return b.unary(UnaryFn.NOT, x)

    def _less(self, b: Builder, x: Value, y: Value) -> Value:
        if (logic := self._of_truths(b, BinaryFn.LT, x, y)) is not None:
            return logic
        if DType.I1 in (x.dtype, y.dtype):
            return b.binary(BinaryFn.LT, x, y)
        return self._below_zero(b, BinaryFn.LT, b.binary(BinaryFn.SUB, x, y))

    def _at_most(self, b: Builder, x: Value, y: Value) -> Value:
        if (logic := self._of_truths(b, BinaryFn.LE, x, y)) is not None:
            return logic
        if DType.I1 in (x.dtype, y.dtype):
            return b.binary(BinaryFn.LE, x, y)
        difference = b.binary(BinaryFn.SUB, x, y)
        if not (self.is_whole(x) and self.is_whole(y)):
            return self._below_zero(b, BinaryFn.LE, difference)
        one = b.constant(1.0, difference.dtype)
        return self._below_zero(b, BinaryFn.LT, b.binary(BinaryFn.SUB, difference, one))

    def _equal(self, b: Builder, x: Value, y: Value) -> Value:
        if (logic := self._of_truths(b, BinaryFn.EQ, x, y)) is not None:
            return logic
        if not self._are_whole(x, y):
            return b.binary(BinaryFn.EQ, x, y)
        return _least(b, self._at_most(b, x, y), self._at_most(b, y, x))

    def _unequal(self, b: Builder, x: Value, y: Value) -> Value:
        if (logic := self._of_truths(b, BinaryFn.NE, x, y)) is not None:
            return logic
        if not self._are_whole(x, y):
            return b.unary(UnaryFn.NOT, b.binary(BinaryFn.EQ, x, y))
        return b.binary(BinaryFn.MAX, self._less(b, x, y), self._less(b, y, x))

    def _of_truths(self, b: Builder, fn: BinaryFn, x: Value, y: Value) -> Value | None:
        """Return a comparison of truth values, with each other or with a number, as logic; None for
        other comparisons, and for those that are always true or always false."""
        holds = _HOLDS[fn]
        for value, number in ((x, y), (y, x)):
            known = self.constants.get(number)
            if known is None or number.shape:
                continue
            answers = [holds(n, known) if value is x else holds(known, n) for n in (0, 1)]
            if answers[0] == answers[1] or (found := self._held(b, value)) is None:
                return None
            return self.negated(b, found[0]) if found[1] != answers[0] else found[0]
        if (first := self._held(b, x)) is None or (second := self._held(b, y)) is None:
            return None
        (p, not_p), (q, not_q) = (self._with_negation(b, held) for held in (first, second))
        if fn is BinaryFn.LT:
            return _least(b, not_p, q)
        if fn is BinaryFn.LE:
            return b.binary(BinaryFn.MAX, not_p, q)
        if fn is BinaryFn.EQ:
            return _least(b, b.binary(BinaryFn.MAX, not_p, q), b.binary(BinaryFn.MAX, p, not_q))
        return b.binary(BinaryFn.MAX, _least(b, not_p, q), _least(b, p, not_q))

    def _with_negation(self, b: Builder, held: Truth) -> tuple[Value, Value]:
        """Return a truth value and its negation."""
        x, opposite = held[0], self.negated(b, held[0])
        return (opposite, x) if held[1] else (x, opposite)

    def _held(self, b: Builder, x: Value) -> Truth | None:
        """Return the truth value whose elements ``x`` has, moved as in ``x``; None if there is
        none."""
        x, negative = self.truth(x)
        if x in self.constants:
            return None
        if x.dtype is DType.I1 or (b.in_block and self.is_truth(x)):
            return x, negative
        op = self.makers.get(x)
        if isinstance(op, View) and (found := self._held(b, op.operands[0])):
            return moved(b, found[0], op), found[1] != negative
        if op is not None and op.function is BinaryFn.ADD:
            for term, zero in (op.operands, op.operands[::-1]):
                if self._numbers(zero) == frozenset({Fraction(0)}) and term.shape == x.shape:
                    found = self._held(b, term)
                    return found and (found[0], found[1] != negative)
        return None

    def _are_whole(self, x: Value, y: Value) -> bool:
        return DType.I1 not in (x.dtype, y.dtype) and self.is_whole(x) and self.is_whole(y)

    def _below_zero(self, b: Builder, fn: BinaryFn, x: Value) -> Value:
        return b.binary(fn, x, b.constant(0.0, x.dtype))

    def is_whole(self, x: Value) -> bool:
        """Return whether all elements are certainly whole numbers."""
        if x.dtype.is_integer:
            return True
        if x in self.constants:
            number = float(self.constants[x])
            return math.isfinite(number) and self.constants[x] == int(number)
        op = self.makers.get(x)
        if op is None:
            return False
        if op.function is BinaryFn.KEEP:  # the kept value, or zero
            return self.is_whole(op.operands[1])
        largest = isinstance(op, Contraction) and op.function is ReduceFn.MAX
        if largest or _same_elements(op) or op.function in _WHOLE:
            return all(map(self.is_whole, op.operands))
        return self.is_truth(x)

    def is_truth(self, x: Value) -> bool:
        """Return whether all elements are certainly truth values (0 or 1)."""
        numbers = self._numbers(x)
        return numbers is not None and numbers <= _TRUTHS

    def _numbers(self, x: Value) -> frozenset[Fraction] | None:
        """Return a small set of numbers that contains each element; None if none is known."""
        if x not in self._few:
            found = self._made_of(x)
            self._few[x] = None if found is None or len(found) > _FEW else found
        return self._few[x]

    def _made_of(self, x: Value) -> frozenset[Fraction] | None:
        if x.dtype is DType.I1:
            return _TRUTHS
        if x in self.constants:
            number = self.constants[x]
            return frozenset({number}) if isinstance(number, Fraction) else None
        op = self.makers.get(x)
        if op is None:
            return None
        fn = op.function
        if (fn in UNARY and UNARY[fn].truth) or (fn in BINARY and BINARY[fn].truth):
            return _TRUTHS
        if not _same_elements(op) and fn not in _EXACTLY:
            return None
        operands = [numbers for v in op.operands if (numbers := self._numbers(v)) is not None]
        if len(operands) < len(op.operands):
            return None
        if _same_elements(op):  # and zeros past the end of a loaded tensor
            return frozenset({Fraction(0)} if isinstance(op, Source) else ()).union(*operands)
        alike = len(set(op.operands)) == 1  # a value and itself
        pairs = ((n,) * len(operands) for n in operands[0]) if alike else product(*operands)
        return frozenset(_EXACTLY[fn](*pair) for pair in pairs)


def _same_elements(op: Op) -> bool:
    """Return whether the result has the elements of the operands: loaded, moved, or in another
    type."""
    if isinstance(op, Elementwise):
        return op.identity
    return isinstance(op, (Source, Movement)) and bool(op.operands)
