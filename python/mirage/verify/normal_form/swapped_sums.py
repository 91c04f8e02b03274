"""Sums of sums, in the order in which the inner one picks one element.

``sum over j of (sum over i of (x[i] where rank[i] == j, else 0))`` is the sum of the sorted
elements. In the other order, the inner sum picks the only place ``j`` that is the rank of ``i``, so
the sum of ``x`` remains.
"""

from __future__ import annotations

from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import ReduceFn
from mirage.semantics.ugraph import Contraction, Op, Value
from mirage.verify.normal_form.one_index import sums, turned, with_one
from mirage.verify.normal_form.one_of_a_row import Pick, keeps_one, masked
from mirage.verify.normal_form.reading import Reading


def swapped_sums_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a sum of sums in which one element is kept along a dimension of the outer
    one; None for other ops."""
    if not sums(op):
        return None
    (x,), (dims,) = op.operands, op.over
    for dim in dims:
        found = _summed(reading, x, dim)
        if found is not None:
            return _over(reading, found, tuple(d for d in dims if d != dim))
    return None


def _over(reading: Reading, x: Value, dims: tuple[int, ...]) -> Value:
    return reading.write(lambda b: b.reduce(ReduceFn.SUM, x, dims)) if dims else x


def _summed(reading: Reading, x: Value, dim: int) -> Value | None:
    """Return the sum of ``x`` over a dimension, which has size 1 in the result."""
    op = reading.makers.get(x)
    if op is None or x.shape[dim] == 1:
        return None
    if op.renames:
        dims = unit_free_dims(op.operands[0].shape, x.shape)
        inner = None
        if dims is not None and dim in dims:
            inner = _summed(reading, op.operands[0], dims[dim])
        if inner is None:
            return None
        return reading.write(lambda b: b.reshape(inner, with_one(x, dim)))
    order = turned(op)
    if order is not None:
        inner = _summed(reading, op.operands[0], order[dim])
        return None if inner is None else reading.write(lambda b: b.transpose(inner, order))
    if is_cast(op):
        inner = _summed(reading, op.operands[0], dim)
        return None if inner is None else reading.write(lambda b: b.cast(inner, x.dtype))
    if not sums(op) or dim in op.over[0]:
        return None
    return _of_picked(reading, op, dim)


def _of_picked(reading: Reading, op: Contraction, dim: int) -> Value | None:
    """Return the sum of a sum over one more dimension, along which one element is kept."""
    (x,), (dims,) = op.operands, op.over
    parts = masked(reading, x)
    if parts is None or parts[0].shape != x.shape or not keeps_one(reading, parts[0], dim):
        return None
    found = Pick(reading, parts[0], dim).of(parts[1])
    wide = reading.write(lambda b: b.broadcast(found, with_one(x, dim)))
    return _over(reading, wide, dims)
