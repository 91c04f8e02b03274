"""Slices of values computed from rows that are looked up."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather, gather, iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.earlier_slices import with_earlier_slices

TABLE, FACTOR = (Value(TensorType(shape, DType.F32)) for shape in ((8, 3), (3, 1)))


def program(start: int, *, read_again: bool = False) -> KernelGraph:
    b = Builder()
    place = b.binary(BinaryFn.MIN, iota(b, (2, 6), 1), b.constant(4, DType.I64))
    rows = b.transpose(gather(b, TABLE, place), (0, 2, 1))
    y = b.unary(UnaryFn.EXP, b.binary(BinaryFn.MUL, rows, FACTOR))
    part = b.slice(y, (0, 1, start), (2, 2, 4))
    outputs = (part, y) if read_again else (part,)
    return KernelGraph("slices", (TABLE, FACTOR), tuple(b.ops), outputs)


def looked_up(graph: KernelGraph) -> list[tuple[int, ...]]:
    return [op.result.shape for op in graph.ops if isinstance(op, Gather)]


@pytest.mark.parametrize("start", [0, 2])
def test_only_what_is_kept_is_looked_up(start: int) -> None:
    graph = program(start)
    found = with_earlier_slices(graph)
    check_graph(found)
    assert looked_up(graph) == [(2, 6, 3)]
    assert looked_up(found) == [(2, 4, 2)]
    inputs = [np.random.default_rng(0).normal(size=v.shape) for v in graph.inputs]
    (want,), (got,) = (evaluate_floats(g, inputs) for g in (graph, found))
    np.testing.assert_array_equal(got, want)


def test_what_is_read_again_stays() -> None:
    graph = program(0, read_again=True)
    assert with_earlier_slices(graph) is graph
