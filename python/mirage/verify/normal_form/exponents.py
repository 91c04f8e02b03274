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
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
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
    logarithm: bool  # the term is the logarithm of the value, otherwise the value
    views: tuple[View, ...] = ()  # from the value to the term
    parts: tuple[tuple[_Term, ...], ...] = ()  # if it is a movement of these sums


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


def exponential(b: Builder, x: Value, makers: Mapping[Value, Op]) -> Value:
    """Write ``e^x``, with the logarithms in ``x`` taken out."""
    terms = _terms(x, makers, False, 0)
    return _product(b, terms, makers) if _has_logarithm(terms) else b.unary(UnaryFn.EXP, x)


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
