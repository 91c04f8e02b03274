"""What is compared with itself is handed over between parts."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.compared import compared_with_itself
from mirage.transforms.partition import Part, partition


def value(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def graph(b: Builder, inputs: tuple[Value, ...], *outputs: Value) -> KernelGraph:
    return KernelGraph("compared", inputs, tuple(b.ops), outputs)


def counts(b: Builder, x: Value) -> Value:
    """Of the elements of a row that are less than each."""
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
    number = b.binary(BinaryFn.EQ, y, y)  # each element with itself alone
    both = b.binary(BinaryFn.AND, b.binary(BinaryFn.AND, positive, apart), number)
    given = counts(b, x)  # it is in memory
    whole = graph(b, (x, z), b.binary(BinaryFn.KEEP, both, y), given)
    assert compared_with_itself(whole) == frozenset()
    assert len(partition(whole)) == 1
