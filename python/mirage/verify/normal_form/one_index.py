"""One index of a dimension of a sum, as the sum at this index alone.

If an op treats all indices of a dimension in the same way, its result at one index is the op on its
operands at that index. So the first of the sorted elements of a row is a sum of the elements that
have the first rank, which other rules read as the smallest element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage.semantics.builder import Builder
from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import ReduceFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value, View
from mirage.verify.normal_form.one_of_a_row import picked
from mirage.verify.normal_form.reading import Reading

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def one_index_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a slice that keeps one index of one dimension of a sum; None for other
    ops."""
    start = op.cut_at if isinstance(op, View) else None
    if start is None:
        return None
    (x,), result = op.operands, op.results[0]
    cut = [d for d, n in enumerate(x.shape) if result.shape[d] != n]
    if len(cut) != 1 or result.shape[cut[0]] != 1 or not _is_sum(reading, x):
        return None
    return _at(reading, x, cut[0], start[cut[0]])


def _is_sum(reading: Reading, x: Value) -> bool:
    """Return whether a value has the elements of a sum, in another shape or type."""
    while (op := reading.makers.get(x)) is not None and (
        op.renames or is_cast(op) or turned(op) is not None
    ):
        x = op.operands[0]
    return op is not None and sums(op)


def turned(op: Op | None) -> tuple[int, ...] | None:
    """Return the dimensions of the operand in the order of the result, if an op only transposes."""
    if not isinstance(op, View) or not op.whole or op.renames:
        return None
    dims, rank = op.source_dims(), len(op.operands[0].shape)
    if dims is None or sorted(dims) != list(range(rank)) or set(dims.values()) != set(dims):
        return None
    order = tuple(dims[d] for d in range(rank))
    alike = op.results[0].shape == tuple(op.operands[0].shape[d] for d in order)
    return order if alike else None


def sums(op: Op) -> TypeIs[Contraction]:
    """Return whether an op is a sum over dimensions of its operand."""
    return isinstance(op, Contraction) and op.function is ReduceFn.SUM and len(op.operands) == 1


def _at(reading: Reading, x: Value, dim: int, index: int) -> Value:
    """Return the elements of ``x`` at one index of a dimension, which has size 1 in the result."""
    if x.shape[dim] == 1:
        return x
    op = reading.makers.get(x)
    if op is not None and op.renames:
        dims = unit_free_dims(op.operands[0].shape, x.shape)
        if dims is not None and dim in dims:
            inner = _at(reading, op.operands[0], dims[dim], index)
            return reading.write(lambda b: b.reshape(inner, with_one(x, dim)))
    order = turned(op)
    if op is not None and order is not None:
        inner = _at(reading, op.operands[0], order[dim], index)
        return reading.write(lambda b: b.transpose(inner, order))
    if isinstance(op, Elementwise) and op.operands and not op.cuts:
        return reading.apply(op, tuple(_of(reading, v, x, dim, index) for v in op.operands))
    if op is not None and sums(op) and dim not in op.over[0]:
        inner = _at(reading, op.operands[0], dim, index)
        found = picked(reading, inner, op.over[0])
        return found or reading.write(lambda b: b.reduce(ReduceFn.SUM, inner, op.over[0]))

    def sliced(b: Builder) -> Value:
        offsets = tuple(index if d == dim else 0 for d in range(len(x.shape)))
        return b.slice(x, offsets, with_one(x, dim))

    return reading.write(sliced)


def _of(reading: Reading, v: Value, whole: Value, dim: int, index: int) -> Value:
    """Return an operand of an elementwise op with the result ``whole``, at one index of the
    result's dimension."""
    own = dim - len(whole.shape) + len(v.shape)
    return v if own < 0 else _at(reading, v, own, index)


def with_one(x: Value, dim: int) -> tuple[int, ...]:
    """Return the shape of ``x`` with one index of a dimension."""
    return tuple(1 if d == dim else n for d, n in enumerate(x.shape))
