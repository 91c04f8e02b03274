"""The inputs that are indices, and the numbers of rows that they index."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.index_bounds import index_bounds
from mirage.semantics.positions import gather
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value


def test_indices_as_they_are_have_bounds() -> None:
    table, small = Value(TensorType((37, 8), DType.F32)), Value(TensorType((5, 8), DType.F32))
    one, other, moved = (Value(TensorType((2, 3), DType.I64)) for _ in range(3))
    b = Builder()
    rows = gather(b, table, b.reshape(one, (6,)))
    same = gather(b, small, b.reshape(one, (6,)))
    third = gather(b, table, other)
    far = gather(b, table, b.binary(BinaryFn.ADD, moved, b.constant(1, DType.I64)))
    graph = KernelGraph(
        "g", (table, small, one, other, moved), tuple(b.ops), (rows, same, third, far)
    )
    assert index_bounds(graph) == ((2, 5, False), (2, 37, False), (3, 37, False))
