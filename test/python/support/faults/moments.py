"""Faults of moments and distances: a variance in one pass, squares and products of differences that
are multiplied out, and differences of sums in place of sums of differences. If two large
numbers are close to each other, their small difference then has the errors of the large numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Binary, LayerNorm, Reduce, Unary, Value

from faults.fault import Fault, NotApplicable, Scope, Site


def moment_faults(site: Site) -> Iterator[Fault]:
    """Yield the faults of an op, if earlier ops compute the values that it sums or multiplies."""
    op = site.op
    if isinstance(op, LayerNorm):
        yield Fault("variance in one pass", "layer norm", op, lambda s: _one_pass_norm(s, op))
    differences = [_difference(site, v) for v in op.operands]
    if isinstance(op, Unary) and op.fn is UnaryFn.SQUARE and (square := differences[0]):
        yield Fault("multiplied out", "square", op, lambda s: _square(s, square))
    if isinstance(op, Binary) and op.fn is BinaryFn.MUL:
        for i, d in enumerate(differences):
            if d is not None:
                what = f"factor {i}"
                yield Fault("multiplied out", what, op, lambda s, d=d, i=i: _factor(s, d, 1 - i))
    if not isinstance(op, Reduce) or op.fn is not ReduceFn.SUM:
        return
    if summed := differences[0]:
        yield Fault("multiplied out", "sum", op, lambda s: _sum_of_each(s, op, summed))
    inner = site.maker(op.operands[0])
    if not isinstance(inner, Unary) or inner.fn is not UnaryFn.SQUARE:
        return
    if centred := _difference(site, inner.operands[0]):
        yield Fault("variance in one pass", "squares", op, lambda s: _one_pass(s, op, centred))
        what = "sum of squares"
        yield Fault("multiplied out", what, op, lambda s: _sum_of_squares(s, op, centred))


def _difference(site: Site, value: Value) -> Binary | None:
    """Return the op that makes a value, if that is a difference."""
    op = site.maker(value)
    return op if isinstance(op, Binary) and op.fn is BinaryFn.SUB else None


def _square(s: Scope, difference: Binary) -> Value:
    """Write ``(x - y)^2`` as ``x^2 - 2 x y + y^2``."""
    x, y = (s.rebuilt(v) for v in difference.operands)
    return _squares(s.builder, x, y, lambda v: v)


def _sum_of_squares(s: Scope, op: Reduce, difference: Binary) -> Value:
    """Write a sum of squares like :func:`_square`, with a separate sum for each term."""
    x, y = (s.rebuilt(v) for v in difference.operands)
    _alike(op, x, y)
    return _squares(s.builder, x, y, lambda v: s.builder.reduce(ReduceFn.SUM, v, op.dims))


def _squares(b: Builder, x: Value, y: Value, term: Callable[[Value], Value]) -> Value:
    squares = [term(b.unary(UnaryFn.SQUARE, v)) for v in (x, y)]
    product = term(b.binary(BinaryFn.MUL, x, y))
    twice = b.binary(BinaryFn.MUL, product, b.constant(2.0))
    return b.binary(BinaryFn.SUB, b.binary(BinaryFn.ADD, *squares), twice)


def _sum_of_each(s: Scope, op: Reduce, difference: Binary) -> Value:
    """Write the sum of ``x - y`` as the sum of ``x`` minus the sum of ``y``."""
    x, y = (s.rebuilt(v) for v in difference.operands)
    _alike(op, x, y)
    sums = (s.builder.reduce(ReduceFn.SUM, v, op.dims) for v in (x, y))
    return s.builder.binary(BinaryFn.SUB, *sums)


def _factor(s: Scope, difference: Binary, other: int) -> Value:
    """Write ``(x - y) c`` as ``x c - y c``."""
    b, c = s.builder, s.operands[other]
    products = [b.binary(BinaryFn.MUL, s.rebuilt(v), c) for v in difference.operands]
    return b.binary(BinaryFn.SUB, *products)


def _alike(op: Reduce, x: Value, y: Value) -> None:
    """Return whether both have all terms of a sum, in its dimensions."""
    shape = op.operands[0].shape
    if any(len(v.shape) != len(shape) or v.shape[d] != shape[d] for v in (x, y) for d in op.dims):
        raise NotApplicable


def _one_pass(s: Scope, op: Reduce, centred: Binary) -> Value:
    """Write the sum of ``(x - m)^2`` as the sum of ``x^2`` minus ``m`` times the sum of ``x``."""
    b = s.builder
    x, mean = (s.rebuilt(v) for v in centred.operands)
    squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), op.dims)
    product = b.binary(BinaryFn.MUL, mean, b.reduce(ReduceFn.SUM, x, op.dims))
    return b.binary(BinaryFn.SUB, squares, product)


def _one_pass_norm(s: Scope, op: LayerNorm) -> Value:
    b = s.builder
    x = s.operands[0]
    wide = x if x.dtype in (DType.F32, DType.F64) else b.cast(x, DType.F32)
    last = tuple(range(len(x.shape) - op.dims, len(x.shape)))
    inverse = b.constant(Fraction(1, prod(x.shape[d] for d in last)))

    def mean(v: Value) -> Value:
        return b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, v, last), inverse)

    first, second = mean(wide), mean(b.unary(UnaryFn.SQUARE, wide))
    variance = b.binary(BinaryFn.SUB, second, b.unary(UnaryFn.SQUARE, first))
    root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, variance, b.constant(op.eps)))
    y = b.binary(BinaryFn.MUL, b.binary(BinaryFn.SUB, wide, first), root)
    for fn, v in zip((BinaryFn.MUL, BinaryFn.ADD), s.operands[1:], strict=False):
        y = b.binary(fn, y, v)
    return y if y.dtype is x.dtype else b.cast(y, x.dtype)
