"""The values that plans may store."""

from __future__ import annotations

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
