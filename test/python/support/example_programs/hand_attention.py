"""Attention written in primitive ops."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value


def products(
    turned: bool, keys: int = 64, batch: int = 2, rows: int = 4, *, scaled: bool = False
) -> KernelGraph:
    """Attention by hand, with keys or transposed keys, and a gain. ``scaled``: one over the sum is
    held in f16, times 2^20."""
    shape = (batch, 16, keys) if turned else (batch, keys, 16)
    sizes = ((batch, rows, 16), shape, (batch, keys, 16), (16,))
    q, k, v, g = (Value(TensorType(size, DType.F16)) for size in sizes)
    b = Builder()
    s = b.cast(b.matmul(q, k if turned else b.transpose(k, (0, 2, 1))), DType.F32)
    e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, s, b.reduce(ReduceFn.MAX, s, (2,))))
    inverse = b.unary(UnaryFn.RECIPROCAL, b.reduce(ReduceFn.SUM, e, (2,)))
    if scaled:
        large = b.binary(BinaryFn.MUL, inverse, b.constant(2.0**20))
        half = b.cast(b.cast(large, DType.F16), DType.F32)
        inverse = b.binary(BinaryFn.MUL, half, b.constant(2.0**-20))
    p = b.cast(b.binary(BinaryFn.MUL, e, inverse), DType.F16)
    y = b.binary(BinaryFn.MUL, b.matmul(p, v), g)
    return KernelGraph("products", (q, k, v, g), tuple(b.ops), (y,))
