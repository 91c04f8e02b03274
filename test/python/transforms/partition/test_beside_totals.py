"""Reductions that are exact because the total of their rows is."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.integer_totals import IntegerReduce
from mirage.semantics.integers import Integers
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import KernelGraph, Reduce, TensorType, Value
from mirage.transforms.partition.exact_integers import integers_as_calls


def places_of_largest(dim: int, *, as_floats: bool) -> KernelGraph:
    """Return a sum of positions of the elements of a matrix that equal the rows' maxima."""
    b = Builder()
    x = Value(TensorType((8, 8), DType.I64), "x")
    equal = b.binary(BinaryFn.EQ, x, b.reduce(ReduceFn.MAX, x, (1,)))
    place = iota(b, (8,), 0)
    place = b.cast(place, DType.F32) if as_floats else place
    y = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, equal, place), (dim,))
    return KernelGraph("main", (x,), tuple(b.ops), (y,))


def kinds(graph: KernelGraph) -> list[type]:
    return [type(op) for op in integers_as_calls(graph).ops]


def made(value: Value, graph: KernelGraph) -> type:
    return next(type(op) for op in graph.ops if value in op.results)


def test_of_the_same_rows() -> None:
    graph = integers_as_calls(places_of_largest(1, as_floats=False))
    assert made(graph.outputs[0], graph) is IntegerReduce
    assert not any(isinstance(op, Reduce) for op in graph.ops)


def test_over_other_dimensions() -> None:
    assert Reduce in kinds(places_of_largest(0, as_floats=False))


def test_of_floats() -> None:
    found = kinds(places_of_largest(1, as_floats=True))
    assert Reduce in found
    assert Integers in found
