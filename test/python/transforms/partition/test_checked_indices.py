"""Computed indices that may be outside of their table end a part; others do not."""

from __future__ import annotations

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.positions import gather
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.partition.checked_indices import checked_indices
from mirage.transforms.partition.exact_integers import integers_as_calls

I64 = DType.I64


def value(*shape: int, dtype: DType = I64) -> Value:
    return Value(TensorType(shape, dtype))


def checked(b: Builder, ids: Value, index: Value, *, from_end: bool = False) -> bool:
    """Return whether an index of a table of nine rows is checked."""
    table = value(9, 8, dtype=DType.F32)
    rows = gather(b, table, index, from_end=from_end)
    graph = integers_as_calls(KernelGraph("g", (table, ids), tuple(b.ops), (rows,)))
    found = checked_indices(graph)
    assert found <= {index}
    return bool(found)


@pytest.mark.parametrize(("low", "high", "outside"), [
    (0, 8, False), (0, 9, True), (-1, 8, True), (2, 3, False),
])  # fmt: skip
def test_formulas_have_ranges(low: int, high: int, *, outside: bool) -> None:
    b, ids = Builder(), value(4)
    index = b.binary(BinaryFn.MUL, ids, b.constant(3, I64))
    index = b.binary(BinaryFn.MIN, index, b.constant(high, I64))
    assert checked(b, ids, b.binary(BinaryFn.MAX, index, b.constant(low, I64))) == outside


@pytest.mark.parametrize(("low", "outside"), [(-9, False), (-10, True)])
def test_those_from_the_end(low: int, *, outside: bool) -> None:
    b, ids = Builder(), value(4)
    index = b.binary(BinaryFn.MIN, b.unary(UnaryFn.SQUARE, ids), b.constant(8, I64))
    index = b.binary(BinaryFn.MAX, index, b.constant(low, I64))
    assert checked(b, ids, index, from_end=True) == outside


def test_totals() -> None:
    b, ids = Builder(), value(4, 3)
    assert checked(b, ids, b.reduce(ReduceFn.SUM, ids, (1,)))
    b = Builder()
    most = b.binary(BinaryFn.REMAINDER, b.cumulate(CumulateFn.SUM, ids, 1), b.constant(9, I64))
    assert not checked(b, ids, most)


def test_inputs_are_checked_where_they_are_read() -> None:
    ids = value(4)
    assert not checked(Builder(), ids, ids)
