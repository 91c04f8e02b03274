"""Elements of a table at several indices, as formulas, against NumPy."""

from __future__ import annotations

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import NamedRows
from mirage.semantics.picked_elements import (
    Index,
    along_one_dimension,
    indexed_dims,
    picked_elements,
    reversed_dims,
)
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

TABLE = np.arange(60.0).reshape(3, 4, 5)
X = Value(TensorType((3, 4, 5), DType.F32))
I = Value(TensorType((2, 1), DType.I64))
J = Value(TensorType((6,), DType.I32))
ROWS, COLUMNS = np.array([[2.0], [-1.0]]), np.array([0.0, 3.0, 1.0, 4.0, -4.0, 2.0])


def picked(*indices: Index, shape: tuple[int, ...]) -> Integers:
    b = Builder()
    picked_elements(b, X, indices, shape)
    (op,) = b.ops
    assert isinstance(op, Integers)
    return op


def values(op: Integers) -> np.ndarray:
    graph = KernelGraph("main", (X, I, J), (op,), (op.result,))
    (found,) = evaluate_floats(graph, [TABLE, ROWS, COLUMNS])
    return np.asarray(found)


def test_rows_of_two_indices() -> None:
    """An index outside gives NaN."""
    rows = picked(Index((0, 1), I, from_end=True), Index((1,), J), Index((2,)), shape=(2, 6, 5))
    expected = np.full((2, 6, 5), np.nan)
    for at in (0, 1, 2, 5):
        expected[:, at] = TABLE[[2, -1], int(COLUMNS[at])]
    np.testing.assert_array_equal(values(rows), expected)
    assert rows.named_indices == (NamedRows(I, 3, True), NamedRows(J, 4, False))
    assert indexed_dims(rows) == (True, True)


def test_elements_along_one_dimension() -> None:
    found = picked(Index((0,)), Index((0, 1), I), Index((1,)), shape=(2, 5))
    expected = np.stack([TABLE[0, 2], np.full(5, np.nan)])
    np.testing.assert_array_equal(values(found), expected)
    assert found.named_indices == (NamedRows(I, 4, False),)
    assert indexed_dims(found) is None
    assert along_one_dimension(found) is None


def test_what_is_a_gather() -> None:
    index = Value(TensorType((3, 2, 1), DType.I64))
    b = Builder()
    y = picked_elements(b, X, [Index((0,)), Index((0, 1, 2), index), Index((2,))], (3, 2, 1))
    (op,) = b.ops
    assert isinstance(op, Integers)
    assert y.shape == (3, 2, 1)
    assert along_one_dimension(op) == 1
    assert indexed_dims(op) is None


def test_what_is_an_index_in_the_middle() -> None:
    columns = picked(Index((0,)), Index((1,), J), Index((2,)), shape=(3, 6, 5))
    assert indexed_dims(columns) == (False, True)
    apart = picked(Index((0, 1), I), Index((2,)), Index((1,), J), shape=(2, 6, 4))
    assert indexed_dims(apart) == (True, False, True)
    moved = picked(Index((0,)), Index((1,), J), Index((0,)), shape=(3, 6, 5))
    assert indexed_dims(moved) is None
    assert reversed_dims(columns) is None


def test_what_is_turned_around() -> None:
    turned = picked(Index((0,), last=2), Index((1,)), Index((2,), last=4), shape=(3, 4, 5))
    np.testing.assert_array_equal(values(turned), np.flip(TABLE, (0, 2)))
    assert reversed_dims(turned) == (0, 2)
    assert (
        reversed_dims(picked(Index((0,), last=1), Index((1,)), Index((2,)), shape=(3, 4, 5)))
        is None
    )
