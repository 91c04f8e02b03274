"""Indices that repeat their elements along some dimensions, as ``index[..., None].expand(…)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.builder import broadcast_shapes
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.ugraph import Elementwise, View


def not_repeated(b: Lowering, index: Value) -> Value:
    """Return ``index`` with size 1 along dimensions along which it is known to repeat its elements;
    functions of repeated elements are computed once for all of them."""
    return _not_repeated(b, index, {v: op for op in b.ops for v in op.results})


def _not_repeated(b: Lowering, index: Value, makers: Mapping[Value, Op]) -> Value:
    op = makers.get(index)
    if isinstance(op, View) and (shape := _kept_sizes(op)) is not None:
        return b.reshaped(op.operands[0], shape)
    if not isinstance(op, Elementwise):
        return index
    operands = [_not_repeated(b, v, makers) for v in op.operands]
    shape = tuple(1 for _ in index.shape)
    for v in operands:
        shape = broadcast_shapes(shape, v.shape)
    if shape == index.shape:
        return index
    result = Value(TensorType(shape, index.dtype))
    b.ops.append(replace(op, operands=tuple(operands), results=(result,)))
    return result


def _kept_sizes(op: Op) -> tuple[int, ...] | None:
    """Return the shape of a repeating view's operand, with all dimensions of the result; None for
    other views."""
    (before,), after = op.operands, op.results[0].shape
    sources = op.source_dims() if isinstance(op, View) and op.whole else None
    if sources is None or before.type.size == op.results[0].type.size:
        return None
    shape = tuple(n if d in sources else 1 for d, n in enumerate(after))
    wide = [n for n in before.shape if n != 1]
    return shape if [n for n in shape if n != 1] == wide else None
