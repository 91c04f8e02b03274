"""Axes that are merged, and those of rows that are looked up, which are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from mirage.cost.target import target_for
from mirage.search import SearchLimits
from mirage.search.superoptimize import Planner
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value

EXPERTS, ROWS, WIDTH = 6, 1408, 2048


def experts() -> KernelGraph:
    """Products of one row with two matrices for each of several experts."""

    def value(*shape: int) -> Value:
        return Value(TensorType(shape, DType.BF16))

    x, gate, up = value(1, 1, WIDTH), *(value(EXPERTS, ROWS, WIDTH) for _ in range(2))
    b = Builder()
    each = b.broadcast(x, (EXPERTS, 1, WIDTH))
    gated, raised = (b.matmul(each, b.transpose(w, (0, 2, 1))) for w in (gate, up))
    result = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, gated), raised)
    return KernelGraph("experts", (x, gate, up), tuple(b.ops), (result,))


def merged(rows: Mapping[int, int]) -> bool:
    """Return whether kernels read the matrices of all experts as one."""
    graph = experts()
    planner = Planner(graph, target_for("h200"), SearchLimits(budget=60, plans=20), rows=rows)
    best = planner.run().candidates[0].graph
    read = {v.shape for op in best.ops if isinstance(op, Launch) for v in op.operands}
    assert read & {(EXPERTS, ROWS, WIDTH), (EXPERTS * ROWS, WIDTH)}
    return (EXPERTS * ROWS, WIDTH) in read


@pytest.mark.parametrize(
    ("rows", "together"),
    [
        pytest.param({}, True, id="tensors in memory"),
        pytest.param({1: 1, 2: 1}, False, id="rows by index"),
        pytest.param({1: 2, 2: 2}, True, id="rows by two indices"),
    ],
)
def test_indices_are_not_merged_with_the_rows_that_they_name(
    rows: Mapping[int, int], together: bool
) -> None:
    assert merged(rows) == together
