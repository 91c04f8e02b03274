"""The values that plans may store."""

from __future__ import annotations

import pytest
from example_programs.search_programs import tensor
from mirage.cost import H200
from mirage.search.limits import SearchReport
from mirage.search.program.storable import Storable
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph


def test_sums_are_stored_and_not_their_logarithms() -> None:
    """A logarithm of a sum of exponentials would be stored with the rows' maximum added to it: of
    scores around 30,000 it keeps two decimals."""
    x, b = tensor("x", 64, 65536, dtype=DType.F32), Builder()
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, x), (1,))
    log = b.unary(UnaryFn.LOG, total)
    y = b.binary(BinaryFn.SUB, x, log)
    graph = KernelGraph("log_softmax", (x,), tuple(b.ops), (y,))
    wanted = Storable(graph, H200, SearchReport()).wanted
    assert total in wanted
    assert log not in wanted


@pytest.mark.parametrize(
    ("shape", "to_batch", "kept"),
    [
        ((64, 32, 16), (2, 0, 1), True),  # ikc,jkc->cij: neighbours belong to other products
        ((16, 64, 32), (0, 1, 2), False),
        ((64, 16, 32), (1, 0, 2), False),  # heads beside each other: rows are whole
    ],
)
def test_scattered_factors_may_be_stored_in_order(
    shape: tuple[int, ...], to_batch: tuple[int, ...], kept: bool
) -> None:
    x, y, b = tensor("x", *shape), tensor("y", *shape), Builder()
    left = b.transpose(x, to_batch)
    right = b.transpose(b.transpose(y, to_batch), (0, 2, 1))
    product = b.matmul(left, right)
    graph = KernelGraph("products", (x, y), tuple(b.ops), (product,))
    assert ({left, right} <= Storable(graph, H200, SearchReport()).wanted) is kept
