"""Products of two matrices, one of which picks a row in each sum: one-hot rows, and weights that
are scattered to the rows to which they belong.

``sum over k of W[i, k] x[k, j]``, where ``W[i, k] = sum over c of (y[i, c] where k == t[i, c], else
0)`` and ``t`` is one of the places, is ``sum over c of y[i, c] x[t[i, c], j]``: the rows that are
looked up, with weights. For the weights of one-hot rows, or of smoothed labels, there is no sum
over ``c`` and ``y`` is a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.ugraph import Contraction, Op, Value, View
from mirage.verify.normal_form.one_of_a_row import Pick, before_reshape, keeps_one, masked
from mirage.verify.normal_form.reading import Reading
from mirage.verify.normal_form.two_values import two_values


@dataclass(frozen=True)
class _Terms:
    """Weights ``least + sum over dims of (kept where mask, else 0)``. ``places`` are the dimensions
    of the mask that the weights have."""

    mask: Value
    kept: Value
    least: Fraction
    places: tuple[int, ...]

    @property
    def summed(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.mask.shape)) if d not in self.places)


def weighed_product_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a product with such weights; None for other ops."""
    if not isinstance(op, Contraction) or len(op.operands) != 2:
        return None
    for side in (0, 1):
        weights, x = op.operands[side], op.operands[1 - side]
        if len(weights.shape) != 2 or len(x.shape) != 2 or not reading.certain.is_finite(x):
            continue
        terms = _terms(reading, weights)
        if terms is not None and keeps_one(reading, terms.mask, terms.places[1 - side]):
            return _written(reading, terms, x, side)
    return None


def _terms(reading: Reading, weights: Value) -> _Terms | None:
    found = two_values(reading, weights)
    if found is not None and found.truth is not None:
        if found.truth.shape != weights.shape or found.yes == found.no:
            return None
        kept = reading.write(lambda b: b.constant(found.yes - found.no, weights.dtype))
        return _Terms(found.truth, kept, found.no, (0, 1))
    value, places = weights, (0, 1)
    op = reading.makers.get(reading.source(value))
    while isinstance(op, View) and op.renames:
        dims = unit_free_dims(op.operands[0].shape, op.results[0].shape)
        if dims is None or len(dims) != len(op.results[0].shape):
            return None
        value, places = op.operands[0], tuple(dims[d] for d in places)
        op = reading.makers.get(reading.source(value))
    if op is not None and isinstance(op, Contraction) and op.function is ReduceFn.SUM:
        if set(op.over[0]) & set(places):
            return None
        value = op.operands[0]
    parts = masked(reading, value)
    if parts is None or parts[0].shape != value.shape:
        return None
    return _Terms(*parts, Fraction(0), places)


def _written(reading: Reading, terms: _Terms, x: Value, side: int) -> Value:
    """Write the product: the terms get one more dimension, that of the columns of ``x`` (or of its
    rows, if the weights are the second factor)."""
    shape, (row, column) = terms.mask.shape, terms.places
    kept, summed = (row, column) if side == 0 else (column, row)
    count = x.shape[1] if side == 0 else x.shape[0]

    def lined(b: Builder) -> Value:
        turned = x if side == 0 else b.transpose(x, (1, 0))
        sizes = [1] * len(shape)
        sizes[summed] = shape[summed]
        return b.reshape(turned, (*sizes, count))

    rows = reading.write(lined)
    picked = Pick(reading, _with_one_more(reading, terms.mask), summed)
    sizes = (*(1 for _ in shape[len(terms.kept.shape) :]), *terms.kept.shape)
    weight = reading.write(lambda b: b.reshape(terms.kept, sizes))
    weight = picked.of(_with_one_more(reading, weight))
    found = picked.of(rows)

    def product(b: Builder) -> Value:
        small = [1 if d == summed else n for d, n in enumerate(shape)]
        total = b.broadcast(b.binary(BinaryFn.MUL, weight, found), (*small, count))
        if terms.summed:
            total = b.reduce(ReduceFn.SUM, total, terms.summed)
        if terms.least:
            every = b.reduce(ReduceFn.SUM, rows, (summed,))
            least = b.binary(BinaryFn.MUL, every, b.constant(terms.least))
            total = b.binary(BinaryFn.ADD, total, least)
        total = b.reshape(total, (shape[kept], count))
        return total if side == 0 else b.transpose(total, (1, 0))

    return reading.write(product)


def _with_one_more(reading: Reading, x: Value) -> Value:
    """Return ``x`` with a last dimension of size 1; a function of elements remains one."""
    seen = reading.write(lambda b: b.reshape(x, (*x.shape, 1)))
    op = reading.makers.get(seen)
    inside = before_reshape(reading, op) if op is not None and op.renames else None
    return seen if inside is None else inside
