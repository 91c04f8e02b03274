"""Composite ops written out in primitive ones.

Softmax comes in two forms that are equal on real numbers: ``stable`` subtracts the row maximum
first, as PyTorch does and as a reference evaluation in floating point needs; the plain form has no
maximum and is what the search starts from. Intermediate results of a composite are f32 (f64 for f64
inputs), as PyTorch's kernels have them; casts are the identity on real numbers.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Composite, KernelGraph, LayerNorm, Op, RmsNorm, Softmax, Value


class UnknownComposite(TypeError):
    """A composite op without a decomposition."""


def decompose(graph: KernelGraph, *, stable: bool = False) -> KernelGraph:
    """``graph`` without composite ops; inputs are the same objects, ops that need no change are
    kept.

    Raises :class:`UnknownComposite`.
    """
    ops: list[Op] = []
    renamed: dict[Value, Value] = {}
    for op in graph.ops:
        operands = tuple(renamed.get(v, v) for v in op.operands)
        if not isinstance(op, Composite):
            ops.append(op if operands == op.operands else with_operands(op, operands))
            continue
        builder = Builder()
        renamed[op.result] = _expand(builder, op, operands, stable)
        ops.extend(builder.ops)
    return KernelGraph(
        graph.name, graph.inputs, tuple(ops), tuple(renamed.get(v, v) for v in graph.outputs)
    )


def _expand(b: Builder, op: Composite, operands: tuple[Value, ...], stable: bool) -> Value:
    wide = DType.F64 if op.result.dtype is DType.F64 else DType.F32
    values = [v if v.dtype is wide else b.cast(v, wide) for v in operands]
    x = values[0]
    if isinstance(op, Softmax):
        if stable:
            x = b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, x, (op.dim,)))
        e = b.unary(UnaryFn.EXP, x)
        y = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (op.dim,)))
    elif isinstance(op, RmsNorm):
        y = b.binary(
            BinaryFn.MUL, x, _inverse_root(b, _mean(b, b.unary(UnaryFn.SQUARE, x), op.dims), op.eps)
        )
    elif isinstance(op, LayerNorm):
        centred = b.binary(BinaryFn.SUB, x, _mean(b, x, op.dims))
        variance = _mean(b, b.unary(UnaryFn.SQUARE, centred), op.dims)
        y = b.binary(BinaryFn.MUL, centred, _inverse_root(b, variance, op.eps))
    else:
        raise UnknownComposite(
            f"expected a composite op with a decomposition, got {type(op).__name__}"
        )
    for fn, v in zip((BinaryFn.MUL, BinaryFn.ADD), values[1:], strict=False):
        y = b.binary(fn, y, v)
    return y if y.dtype is op.result.dtype else b.cast(y, op.result.dtype)


def _mean(b: Builder, x: Value, dims: int) -> Value:
    last = tuple(range(len(x.shape) - dims, len(x.shape)))
    size = max(prod(x.shape[d] for d in last), 1)
    return b.binary(
        BinaryFn.MUL,
        b.reduce(ReduceFn.SUM, x, last),
        b.constant(Fraction(1, size), x.dtype),
    )


def _inverse_root(b: Builder, x: Value, eps: float) -> Value:
    return b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, x, b.constant(eps, x.dtype)))
