"""Choices whose outcome is known."""

from __future__ import annotations

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.certain_choices import without_certain_choices

X = Value(TensorType((5,), DType.F32))


def program(below: int, offset: int) -> KernelGraph:
    """``x`` where ``position + offset`` is below a number, times that position, clamped."""
    b = Builder()
    place = b.binary(BinaryFn.ADD, iota(b, (5,), 0), b.constant(offset, DType.I64))
    inside = b.binary(BinaryFn.LT, place, b.constant(below, DType.I64))
    clamped = b.binary(BinaryFn.MAX, place, b.constant(0, DType.I64))
    clamped = b.binary(BinaryFn.MIN, clamped, b.constant(below - 1, DType.I64))
    kept = b.binary(BinaryFn.KEEP, inside, X)
    out = b.binary(BinaryFn.MUL, kept, b.cast(clamped, DType.F32))
    return KernelGraph("choices", (X,), tuple(b.ops), (out,))


def functions(graph: KernelGraph) -> set[object]:
    return {op.function for op in graph.ops} & {BinaryFn.KEEP, BinaryFn.MAX, BinaryFn.MIN}


def test_certain_choices_are_left_out() -> None:
    cases = {(5, 0): set[object](), (4, 0): {BinaryFn.KEEP, BinaryFn.MIN}, (5, -1): {BinaryFn.MAX}}
    for (below, offset), left in cases.items():
        graph = program(below, offset)
        found = without_certain_choices(graph)
        check_graph(found)
        assert functions(found) == left
        x = [np.array([1.0, np.nan, -np.inf, 0.5, 3.0])]
        (want,), (got,) = (evaluate_floats(g, x) for g in (graph, found))
        np.testing.assert_array_equal(got, want)


def test_a_number_that_is_kept_unless_it_is_zero() -> None:
    places = Value(TensorType((5,), DType.I64))
    for other, left in ((0, set[object]()), (1, {BinaryFn.KEEP})):
        b = Builder()
        differs = b.binary(BinaryFn.NE, places, b.constant(other, DType.I64))
        out = b.binary(BinaryFn.KEEP, differs, places)
        graph = KernelGraph("kept", (places,), tuple(b.ops), (out,))
        found = without_certain_choices(graph)
        check_graph(found)
        assert functions(found) == left
        x = [np.array([-1, 0, 1, 2, 0])]
        (want,), (got,) = (evaluate_floats(g, x) for g in (graph, found))
        np.testing.assert_array_equal(got, want)
