"""Composite ops written out in primitive ones.

Softmax comes in two forms that are equal on real numbers: ``stable`` subtracts the row maximum
first, as PyTorch does and as a reference evaluation in floating point needs; the plain form has no
maximum and is what the search starts from. Intermediate results of a composite are f32 (f64 for f64
inputs), as PyTorch's kernels have them; casts are the identity on real numbers.
"""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Composite, KernelGraph, Op, Value


def decompose(graph: KernelGraph, *, stable: bool = False) -> KernelGraph:
    """Return ``graph`` without composite ops; its inputs and unchanged ops are the same objects."""
    ops: list[Op] = []
    renamed: dict[Value, Value] = {}
    for op in graph.ops:
        operands = tuple(renamed.get(v, v) for v in op.operands)
        if not isinstance(op, Composite):
            ops.append(with_operands(op, operands))
            continue
        builder = Builder()
        renamed[op.result] = _expand(builder, op, operands, stable)
        ops.extend(builder.ops)
    return KernelGraph(
        graph.name, graph.inputs, tuple(ops), tuple(renamed.get(v, v) for v in graph.outputs)
    )


def _expand(b: Builder, op: Composite, operands: tuple[Value, ...], stable: bool) -> Value:
    wide = DType.F64 if op.result.dtype is DType.F64 else DType.F32
    y = op.decomposed(
        b, [v if v.dtype is wide else b.cast(v, wide) for v in operands], stable=stable
    )
    return y if y.dtype is op.result.dtype else b.cast(y, op.result.dtype)
