"""Tensors that are compared with themselves are passed between parts."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.partition.compared import compared_with_itself
from mirage.transforms.partition.divide import divide
from mirage.transforms.partition.partition import Part, partition


def value(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def graph(b: Builder, inputs: tuple[Value, ...], *outputs: Value) -> KernelGraph:
    return KernelGraph("compared", inputs, tuple(b.ops), outputs)


def counts(b: Builder, x: Value) -> Value:
    """Return the number of elements of a row that are less than each one."""
    rows, size = x.shape
    mine, other = b.reshape(x, (rows, size, 1)), b.reshape(x, (rows, 1, size))
    less = b.cast(b.binary(BinaryFn.LT, other, mine), DType.F32)
    return b.reduce(ReduceFn.SUM, less, (2,))


def test_both_sides_of_a_comparison_read_the_same() -> None:
    b = Builder()
    x = value(4, 8)
    y = b.softmax(x, 1)
    whole = graph(b, (x,), counts(b, y))
    assert compared_with_itself(whole) == {y}
    first, second = partition(whole)
    assert isinstance(first, Part)
    assert isinstance(second, Part)
    assert first.graph.outputs == (y,)
    assert second.graph.inputs == (y,)


def test_what_depends_on_the_comparison_reads_the_same_too() -> None:
    b = Builder()
    x = value(4, 8)
    y = b.unary(UnaryFn.EXP, x)
    most = b.reduce(ReduceFn.MAX, b.unary(UnaryFn.NEG, y), (1,))
    found = b.binary(BinaryFn.EQ, b.unary(UnaryFn.NEG, y), most)
    whole = graph(b, (x,), b.binary(BinaryFn.KEEP, found, y))
    assert compared_with_itself(whole) == {y}
    first, second = partition(whole)
    assert isinstance(first, Part)
    assert isinstance(second, Part)
    assert first.graph.outputs == (y,)
    assert most in {v for op in second.graph.ops for v in op.results}


def test_what_is_rounded_before_it_is_compared_is_handed_over() -> None:
    b = Builder()
    x = value(4, 8)
    narrow = b.cast(b.unary(UnaryFn.EXP, x), DType.F16)
    assert compared_with_itself(graph(b, (x,), counts(b, narrow))) == {narrow}


def test_other_comparisons_cut_nothing() -> None:
    b = Builder()
    x, z = value(4, 8), value(4, 8)
    y = b.unary(UnaryFn.EXP, x)
    positive = b.binary(BinaryFn.LT, b.constant(0.0), y)  # with a number
    apart = b.binary(BinaryFn.LT, b.unary(UnaryFn.EXP, z), y)  # with another tensor
    number = b.binary(BinaryFn.EQ, y, y)  # each element only with itself
    both = b.binary(BinaryFn.AND, b.binary(BinaryFn.AND, positive, apart), number)
    given = counts(b, x)  # it is in memory
    whole = graph(b, (x, z), b.binary(BinaryFn.KEEP, both, y), given)
    assert compared_with_itself(whole) == frozenset()
    assert len(partition(whole)) == 1


def test_positions_go_with_what_reads_them() -> None:
    """No part passes on tensors that depend only on positions: each part computes them."""
    b = Builder()
    x = value(4, 8)
    line = iota(b, (8,), 0)
    before = b.binary(BinaryFn.LT, b.reshape(line, (1, 8)), b.reshape(line, (8, 1)))
    late = b.binary(BinaryFn.LT, line, b.constant(5.0, DType.I64))
    y = b.softmax(b.binary(BinaryFn.KEEP, late, x), 1)
    z = b.binary(
        BinaryFn.KEEP, late, b.binary(BinaryFn.KEEP, before, b.reshape(counts(b, y), (4, 8, 1)))
    )
    steps = partition(graph(b, (x,), z))
    parts = [s.graph for s in steps if isinstance(s, Part)]
    assert [[v.dtype for v in p.outputs] for p in parts] == [[DType.F32], [DType.F32]]
    assert all(line in p.inputs for p in parts)
    assert all(v is line or not v.dtype.is_integer for p in parts for v in p.inputs)


def test_truth_values_are_handed_over_last() -> None:
    b = Builder()
    x, y = value(64, 64), value(64, 64)
    sums = [b.binary(BinaryFn.ADD, x, y)]
    for _ in range(3):
        sums.append(b.unary(UnaryFn.EXP, sums[-1]))
    found = b.binary(BinaryFn.LT, sums[-1], y)
    ops = list(b.ops)
    b.binary(BinaryFn.KEEP, found, x)
    runs = divide(tuple(b.ops), {v: op for op in b.ops for v in op.results}, 4)
    assert [op for run in runs for op in run] == [*ops, b.ops[-1]]
    assert all(run[-1].result is not found for run in runs)
