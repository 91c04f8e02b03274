"""Exponentials of logarithms, ``e^(a + log(x)) = x e^a``, and functions that are made of
exponentials.

Parts of a softmax are combined by the logarithms of their sums. The argument of a logarithm that is
defined is positive, so the identity holds wherever a program that contains the logarithm is
defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    Movement,
    Op,
    Value,
    View,
)
from mirage.verify.normal_form.certainty import Certain

_DEEPEST = 8  # sums in sums


def _sigmoid(b: Builder, x: Value) -> Value:
    below = b.binary(BinaryFn.ADD, b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, x)), b.constant(1.0))
    return b.unary(UnaryFn.RECIPROCAL, below)


def _tanh(b: Builder, x: Value) -> Value:
    """Write ``tanh(x)`` as ``1 - 2 / (e^2x + 1)``."""
    below = b.binary(
        BinaryFn.ADD, b.unary(UnaryFn.EXP, b.binary(BinaryFn.ADD, x, x)), b.constant(1.0)
    )
    part = b.binary(BinaryFn.MUL, b.unary(UnaryFn.RECIPROCAL, below), b.constant(-2.0))
    return b.binary(BinaryFn.ADD, part, b.constant(1.0))


def _gelu_tanh(b: Builder, x: Value) -> Value:
    def times(x: Value, y: Value) -> Value:
        return b.binary(BinaryFn.MUL, x, y)

    cube = times(times(times(x, x), x), b.constant(0.044715))
    inside = times(b.binary(BinaryFn.ADD, x, cube), b.constant(math.sqrt(2.0 / math.pi)))
    whole = b.binary(BinaryFn.ADD, _tanh(b, inside), b.constant(1.0))
    return times(times(x, b.constant(0.5)), whole)


WRITTEN: Mapping[UnaryFn, Callable[[Builder, Value], Value]] = {
    UnaryFn.SIGMOID: _sigmoid,
    UnaryFn.SILU: lambda b, x: b.binary(BinaryFn.MUL, x, _sigmoid(b, x)),
    UnaryFn.TANH: _tanh,
    UnaryFn.GELU_TANH: _gelu_tanh,
    UnaryFn.ABS: lambda b, x: b.binary(BinaryFn.MAX, x, b.unary(UnaryFn.NEG, x)),
}
"""Functions written with exponentials (and a magnitude as a maximum). Programs that are equal with
these definitions are equal. If they are not equal, nothing follows, since there may be too many
denominators for a proof."""


@dataclass(frozen=True)
class _Term:
    value: Value
    negative: bool
    logarithm: bool  # of the value, else itself
    views: tuple[View, ...] = ()  # of it
    parts: tuple[tuple[_Term, ...], ...] = ()  # it is a movement of these sums


def masked_exponential_rule(
    op: Op, makers: Mapping[Value, Op], constants: Mapping[Value, Number]
) -> Callable[[Builder], Value] | None:
    """Return how to write an exponential that a mask keeps, or that is multiplied by a mask: as
    the exponential of the argument plus minus infinity where the mask is false. Then a summand that
    all arguments of a row have in common can be moved out, as in a softmax. The exponential may be
    divided by something, which a mask keeps from being zero unless it is certainly positive. Return
    None for other ops."""
    if op.function not in (BinaryFn.KEEP, BinaryFn.MUL):
        return None
    keeps = op.function is BinaryFn.KEEP
    for mask, kept in (op.operands, op.operands[::-1])[: 1 if keeps else 2]:
        made, truth = makers.get(kept), _as_truth(mask, makers)
        if made is None or truth is None:
            continue
        divisor: Value | None = None
        if made.function is BinaryFn.DIV:
            numerator, divisor = made.operands
            made = makers.get(numerator)
            if keeps and not Certain(makers, constants).is_positive(divisor):
                continue
        if made is None or made.function is not UnaryFn.EXP:
            continue
        (x,) = made.operands
        return lambda b, x=x, truth=truth, divisor=divisor: _masked(b, x, truth, divisor)
    return None


def _masked(b: Builder, x: Value, truth: Value, divisor: Value | None) -> Value:
    bias = b.unary(UnaryFn.BIAS, b.cast(truth, x.dtype))
    kept = b.unary(UnaryFn.EXP, b.binary(BinaryFn.ADD, x, bias))
    return kept if divisor is None else b.binary(BinaryFn.DIV, kept, divisor)


def _as_truth(x: Value, makers: Mapping[Value, Op]) -> Value | None:
    """The truth value whose elements ``x`` has as numbers."""
    while x.dtype is not DType.I1:
        op = makers.get(x)
        if not (isinstance(op, Elementwise) and op.identity):
            return None
        x = op.operands[0]
    return x


def exponential_rule(op: Op, makers: Mapping[Value, Op]) -> Callable[[Builder], Value] | None:
    """Return how to write an exponential of a sum that contains a logarithm; None for other ops.
    ``makers`` are the ops before this one."""
    if op.function is not UnaryFn.EXP:
        return None
    terms = _terms(op.operands[0], makers, False, 0)
    if not _has_logarithm(terms):
        return None
    return lambda b: _product(b, terms, makers)


def _has_logarithm(terms: Sequence[_Term]) -> bool:
    return any(t.logarithm or t.parts for t in terms)


@dataclass(frozen=True)
class _Written:
    """The preceding ops, and the operands of reshapes."""

    makers: Mapping[Value, Op]
    reshaped: Mapping[Value, Value]

    def source(self, x: Value) -> Value:
        """Return the value with the same elements as ``x`` in the same order that ``x`` is made
        from by reshapes and casts."""
        while True:
            given, op = self.reshaped.get(x), self.makers.get(x)
            if given is None and isinstance(op, Elementwise) and op.identity and not op.cuts:
                given = op.operands[0]
            if given is None:
                return x
            x = given

    def op(self, x: Value) -> Op | None:
        return self.makers.get(self.source(x))

    def operands(self, x: Value, fn: UnaryFn | BinaryFn) -> tuple[Value, ...] | None:
        """Return the operands of the function that computes ``x``, if it is this function."""
        op = self.op(x)
        return op.operands if op is not None and op.function is fn else None

    def sum_of_two(
        self, total: Op | None, shift: Value, extremum: BinaryFn
    ) -> tuple[Value, Value] | None:
        """Return ``x`` and ``y`` if ``total`` is ``1 + e^-|x - y|`` and ``shift`` is the larger (or
        smaller) one; ``y`` may be zero."""
        ends = self.operands(shift, extremum)
        if ends is None or total is None or total.function is not BinaryFn.ADD:
            return None
        for one, small in (total.operands, total.operands[::-1]):
            made = self.op(one)
            if made is None or made.number != 1:
                continue
            x: tuple[Value, ...] | None = (small,)
            for fn in (UnaryFn.EXP, UnaryFn.NEG, UnaryFn.ABS):
                x = None if x is None else self.operands(x[0], fn)
            if x is None:
                continue
            apart = self._apart(x[0])
            if apart is not None and {*map(self.source, ends)} == {*map(self.source, apart)}:
                return ends[0], ends[1]
            for end, zero in (ends, ends[::-1]):
                is_zero = (made := self.op(zero)) is not None and made.number == 0
                if is_zero and self.source(end) is self.source(x[0]):
                    return ends[0], ends[1]
        return None

    def _apart(self, x: Value) -> tuple[Value, ...] | None:
        """Return the two values whose difference ``x`` is; the difference may be masked where they
        are equal."""
        kept = self.operands(x, BinaryFn.KEEP)
        if kept is None:
            return self.operands(x, BinaryFn.SUB)
        difference = self.operands(kept[1], BinaryFn.SUB)
        unequal = self.operands(kept[0], BinaryFn.NE)
        return difference if unequal is not None and unequal == difference else None


def shift_rule(
    op: Op, makers: Mapping[Value, Op], reshaped: Mapping[Value, Value]
) -> Callable[[Builder], Value] | None:
    """Return how to write ``m + log(sum(e^(x - m)))``: as the logarithm of the sum of ``e^x``,
    whatever is subtracted and added again; and ``max(x, y) + log(1 + e^-|x - y|)``, which is the
    same for a sum of two, or ``min(x, y) - log(1 + e^-|x - y|)``, which is its negative for their
    negatives. Return None for other ops."""
    known = _Written(makers, reshaped)
    if op.function is BinaryFn.SUB:
        return _least_less_logarithm(op, known)
    if op.function is not BinaryFn.ADD:
        return None
    for side, shift in (op.operands, op.operands[::-1]):
        log = known.op(side)
        if log is None or log.function is not UnaryFn.LOG or side.shape != shift.shape:
            continue
        total = known.op(log.operands[0])
        if (
            pair := known.sum_of_two(total, shift, BinaryFn.MAX)
        ) and shift.shape == op.result.shape:
            return lambda b, pair=pair: b.unary(UnaryFn.LOG, _sum_of_exponentials(b, *pair))
        rule = None if total is None else _unshifted(total, known.source(shift), known)
        if rule is not None and shift.shape == op.result.shape:
            return lambda b, rule=rule: _logarithm(b, rule(b), op.result.shape)
    return None


def _least_less_logarithm(op: Op, known: _Written) -> Callable[[Builder], Value] | None:
    shift, log = op.operands[0], known.op(op.operands[1])
    if log is None or log.function is not UnaryFn.LOG or shift.shape != op.results[0].shape:
        return None
    pair = known.sum_of_two(known.op(log.operands[0]), shift, BinaryFn.MIN)
    if pair is None:
        return None

    def written(b: Builder) -> Value:
        total = _sum_of_exponentials(b, *(b.unary(UnaryFn.NEG, x) for x in pair))
        return b.unary(UnaryFn.NEG, b.unary(UnaryFn.LOG, total))

    return written


def _unshifted(total: Op, shift: Value, known: _Written) -> Callable[[Builder], Value] | None:
    """Return the sum of exponentials without the shift of all their arguments."""
    if total.function not in (ReduceFn.SUM, BinaryFn.ADD):
        return None
    arguments: list[Value] = []
    for v in total.operands:
        exp = known.makers.get(v)
        if exp is None or exp.function is not UnaryFn.EXP:
            return None
        less = known.makers.get(exp.operands[0])
        if less is None or less.function is not BinaryFn.SUB:
            return None
        x, off = less.operands
        # taken off each argument of a sum alike: it has the shape of the sums
        if known.source(off) is not shift or off.shape != total.results[0].shape:
            return None
        if x.shape != less.results[0].shape:
            return None
        arguments.append(x)
    if isinstance(total, Contraction):
        (dims,) = total.over
        return lambda b: b.reduce(ReduceFn.SUM, _exponential(b, arguments[0], known.makers), dims)
    return lambda b: b.binary(BinaryFn.ADD, *(_exponential(b, x, known.makers) for x in arguments))


def _exponential(b: Builder, x: Value, makers: Mapping[Value, Op]) -> Value:
    terms = _terms(x, makers, False, 0)
    return _product(b, terms, makers) if _has_logarithm(terms) else b.unary(UnaryFn.EXP, x)


def _sum_of_exponentials(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(BinaryFn.ADD, b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.EXP, y))


def _logarithm(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    log = b.unary(UnaryFn.LOG, x)
    return log if log.shape == shape else b.reshape(log, shape)


def _terms(x: Value, makers: Mapping[Value, Op], negative: bool, depth: int) -> list[_Term]:
    op = makers.get(x)
    fn = None if op is None else op.function
    if op is None or depth >= _DEEPEST:
        return [_Term(x, negative, False)]
    if fn is UnaryFn.LOG:
        return [_Term(op.operands[0], negative, True)]
    if fn is UnaryFn.NEG:
        return _terms(op.operands[0], makers, not negative, depth + 1)
    if fn in (BinaryFn.ADD, BinaryFn.SUB):
        first, second = op.operands
        other = negative != (fn is BinaryFn.SUB)
        return [
            *_terms(first, makers, negative, depth + 1),
            *_terms(second, makers, other, depth + 1),
        ]
    if isinstance(op, Elementwise) and op.identity:
        return _terms(op.operands[0], makers, negative, depth + 1)
    if isinstance(op, View):
        inner = _terms(op.operands[0], makers, negative, depth + 1)
        if _has_logarithm(inner):
            return [replace(t, views=(*t.views, op)) for t in inner]
    elif isinstance(op, Movement):  # pieces that are joined, each with its own exponential
        parts = tuple(tuple(_terms(v, makers, negative, depth + 1)) for v in op.operands)
        if any(map(_has_logarithm, parts)):
            return [_Term(x, negative, False, parts=parts)]
    return [_Term(x, negative, False)]


def _product(b: Builder, terms: Sequence[_Term], makers: Mapping[Value, Op]) -> Value:
    """Return the exponential of the sum, as a product."""
    found: Value | None = None
    for term in terms:
        x = term.value
        if term.parts:
            pieces = tuple(_product(b, part, makers) for part in term.parts)
            joined = replace(makers[x], operands=pieces, results=(Value(x.type),))
            b.ops.append(joined)
            x = joined.result
        for view in term.views:
            wanted = view.operands[0].shape
            x = x if x.shape == wanted else b.broadcast(x, wanted)
            moved = replace(view, operands=(x,), results=(Value(view.result.type),))
            b.ops.append(moved)
            x = moved.result
        if not term.logarithm and not term.parts:
            x = b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, x) if term.negative else x)
        elif term.negative and not term.parts:
            x = b.unary(UnaryFn.RECIPROCAL, x)
        found = x if found is None else b.binary(BinaryFn.MUL, found, x)
    assert found is not None
    return found
