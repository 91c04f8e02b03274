"""Pages that are read as one line of rows."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.pages import of_any_pages, rows_of_pages
from mirage.semantics.positions import Gather, gather, iota
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Elementwise, KernelGraph, TensorType, Value


def program(row: tuple[int, ...], shape: tuple[int, ...], index: DType) -> KernelGraph:
    table, pages = Value(TensorType((7, *row), DType.F32)), Value(TensorType((2, 3), index))
    b = Builder()
    found = b.reshape(gather(b, table, pages), shape)
    out = b.transpose(found, (1, 0, 2))
    return KernelGraph("pages", (table, pages), tuple(b.ops), (out,))


def lookups(graph: KernelGraph) -> list[tuple[int, ...]]:
    return [op.operands[0].shape for op in graph.ops if isinstance(op, Gather)]


@pytest.mark.parametrize("index", [DType.I32, DType.I64])
@pytest.mark.parametrize(
    ("row", "shape", "table"),
    [((4, 5), (2, 12, 5), (28, 5)), ((4, 2, 5), (6, 8, 5), (56, 5)), ((4, 5), (24, 1, 5), (28, 5))],
)
def test_rows_of_pages(
    row: tuple[int, ...], shape: tuple[int, ...], table: tuple[int, ...], index: DType
) -> None:
    graph = program(row, shape, index)
    found = rows_of_pages(graph)
    check_graph(found)
    assert lookups(found) == [table]
    inputs = [np.random.default_rng(0).normal(size=(7, *row)), np.array([[6, 0, 3], [3, -1, 7]])]
    (want,), (got,) = (evaluate_floats(g, inputs) for g in (graph, found))
    assert np.isnan(want).any()  # indices outside stay outside
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("from_end", [False, True])
def test_huge_pages_stay_outside(from_end: bool) -> None:
    """The number of a row, which is a multiple of the page's, would wrap around."""
    table, pages = Value(TensorType((7, 4, 5), DType.F32)), Value(TensorType((6,), DType.I64))
    b = Builder()
    rows = b.reshape(gather(b, table, pages, from_end=from_end), (24, 5))
    out = b.transpose(rows, (1, 0))
    graph = KernelGraph("pages", (table, pages), tuple(b.ops), (out,))
    found = rows_of_pages(graph)
    assert lookups(found) == [(28, 5)]
    index = np.array([2**62, -(2**62), 2**63 - 1, -(2**63), 7, 3 - 7 * from_end])
    inputs = [np.random.default_rng(0).normal(size=(7, 4, 5)), index]
    (want,), (got,) = (evaluate_floats(g, inputs) for g in (graph, found))
    np.testing.assert_array_equal(got, want)
    assert np.isnan(want).sum() == 5 * 20


def test_what_the_caller_gets_and_whole_pages_stay() -> None:
    for graph in (program((4, 5), (6, 4, 5), DType.I64), program((4, 5), (6, 5, 4), DType.I64)):
        assert rows_of_pages(graph) is graph
    b = Builder()
    table, pages = Value(TensorType((7, 4, 5), DType.F32)), Value(TensorType((3,), DType.I64))
    out = b.reshape(gather(b, table, pages), (12, 5))
    graph = KernelGraph("caller", (table, pages), tuple(b.ops), (out,))
    assert rows_of_pages(graph) is graph


def test_keys_and_values_in_the_same_pages() -> None:
    """The numbers of rows are computed once."""
    keys, values = (Value(TensorType((7, 4, 5), DType.F32)) for _ in range(2))
    pages, b = Value(TensorType((2, 3), DType.I64)), Builder()
    rows = [b.reshape(gather(b, table, pages), (2, 12, 5)) for table in (keys, values)]
    out = b.binary(BinaryFn.ADD, *rows)
    found = rows_of_pages(KernelGraph("cache", (keys, values, pages), tuple(b.ops), (out,)))
    check_graph(found)
    assert lookups(found) == [(28, 5), (28, 5)]
    assert [op.function for op in found.ops].count(BinaryFn.MUL) == 1
    assert not any(isinstance(op, Elementwise) and op.identity for op in found.ops)


def within(lowest: int, highest: int) -> KernelGraph:
    """Rows of limited pages, of four rows each, among 28 rows."""
    table, pages = Value(TensorType((28, 5), DType.F32)), Value(TensorType((2, 3), DType.I64))
    b = Builder()
    limited = b.binary(BinaryFn.MAX, pages, b.constant(lowest, DType.I64))
    limited = b.binary(BinaryFn.MIN, limited, b.constant(highest, DType.I64))
    first = b.binary(BinaryFn.MUL, b.reshape(limited, (6, 1)), b.constant(4, DType.I64))
    line = b.reshape(iota(b, (4,), 0, DType.I64), (1, 4))
    found = gather(b, table, b.reshape(b.binary(BinaryFn.ADD, first, line), (2, 12)))
    return KernelGraph("rows", (table, pages), tuple(b.ops), (found,))


def has_limits(graph: KernelGraph) -> bool:
    return any(op.function in (BinaryFn.MIN, BinaryFn.MAX) for op in graph.ops)


def test_limits_that_keep_pages_outside_are_left_out() -> None:
    for graph in (rows_of_pages(program((4, 5), (2, 12, 5), DType.I64)), within(-8, 7)):
        found = of_any_pages(graph)
        check_graph(found)
        assert has_limits(graph)
        assert not has_limits(found)
        inputs = [np.random.default_rng(0).normal(size=graph.inputs[0].shape)]
        inputs += [np.array([[6, 0, 3], [3, 7, 900]])]
        (y,), (z,) = evaluate_floats(graph, inputs), evaluate_floats(found, inputs)
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize(("lowest", "highest"), [(0, 6), (-8, 6), (-7, 7), (-8, 8), (-9, 7)])
def test_other_limits_stay(lowest: int, highest: int) -> None:
    graph = within(lowest, highest)
    assert of_any_pages(graph) is graph
