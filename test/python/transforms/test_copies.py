"""Values that are computed twice are computed once, unless the caller could notice."""

from __future__ import annotations

from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Constant,
    External,
    KernelGraph,
    Reshape,
    TensorType,
    Unary,
    Value,
)
from mirage.transforms.copies import without_repeats

F32 = TensorType((4,), DType.F32)


def exp(x: Value) -> Unary:
    return Unary((x,), (Value(F32),), UnaryFn.EXP)


def add(x: Value, y: Value) -> Binary:
    return Binary((x, y), (Value(F32),), BinaryFn.ADD)


def test_chains_of_equal_ops_are_one() -> None:
    x = Value(F32, "x")
    ones = [Constant((), (Value(TensorType((), DType.F32)),), 1) for _ in range(2)]
    first, again = exp(x), exp(x)
    sums = [add(op.result, one.result) for op, one in zip((first, again), ones, strict=True)]
    whole = add(sums[0].result, sums[1].result)
    graph = KernelGraph("g", (x,), (*ones, first, again, *sums, whole), (whole.result,))
    found = without_repeats(graph)
    assert [type(op).__name__ for op in found.ops] == ["Constant", "Unary", "Binary", "Binary"]
    (y,), (z,) = (evaluate_floats(g, [[1.0, 2.0, 3.0, 4.0]]) for g in (graph, found))
    assert (y == z).all()


def test_attributes_and_types_matter() -> None:
    x = Value(F32, "x")
    numbers = [Constant((), (Value(TensorType((), DType.F32)),), n) for n in (0, 1)]
    parts = [add(x, zero.result) for zero in numbers]
    other = Unary((x,), (Value(F32),), UnaryFn.SQRT)
    more = Unary((x,), (Value(TensorType((4,), DType.F16)),), UnaryFn.SQRT)
    outputs = tuple(op.result for op in (*parts, other, more))
    graph = KernelGraph("g", (x,), (*numbers, *parts, other, more), outputs)
    assert without_repeats(graph).ops == graph.ops


def test_what_the_caller_gets_has_memory_of_its_own() -> None:
    x = Value(F32, "x")
    first, again, inside = exp(x), exp(x), exp(x)
    flat = Reshape((again.result,), (Value(TensorType((2, 2), DType.F32)),))
    last = add(inside.result, inside.result)
    ops = (first, again, inside, flat, last)
    graph = KernelGraph("g", (x,), ops, (first.result, flat.result, last.result))
    found = without_repeats(graph)
    assert found.ops[:2] == (first, again)
    assert found.ops[-1].operands == (first.result, first.result)
    assert len(found.ops) == 4


def test_calls_are_made_as_often_as_they_are_written() -> None:
    x = Value(F32, "x")
    calls = [External((x,), (Value(F32),), "aten.cumsum.default", (("dim", 0),)) for _ in "ab"]
    whole = add(calls[0].result, calls[1].result)
    graph = KernelGraph("g", (x,), (*calls, whole), (whole.result,))
    assert without_repeats(graph).ops == graph.ops
