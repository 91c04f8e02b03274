"""Tiles are summed as they lie: over columns and rows, without a transpose of what was loaded."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import check_graph as check_lowering
from mirage.cost import H200
from mirage.frontend.kernel_graph import new_kernel_graph
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Transpose, all_ops, launches

FAST = SearchLimits(candidates=6, columns=1500)


def grouped(rows: int, columns: int) -> KernelGraph:
    """A norm over both dimensions of each of eight matrices."""
    graph = new_kernel_graph("grouped")
    x = graph.new_input((8, rows, columns), DType.F16, name="x")
    mean = graph.mul(graph.reduction(graph.reduction(x, 2), 1), 1.0 / (rows * columns))
    graph.mark_output(graph.sub(x, mean))
    return graph.build()


def low_rank(k: int, rank: int, n: int) -> KernelGraph:
    """One row times two factors."""
    graph = new_kernel_graph("low_rank")
    x = graph.new_input((1, k), DType.F16, name="x")
    a = graph.new_input((k, rank), DType.F16, name="a")
    b = graph.new_input((rank, n), DType.F16, name="b")
    graph.mark_output(graph.matmul(graph.matmul(x, a), b))
    return graph.build()


@pytest.mark.parametrize("program", [grouped(16, 64), grouped(5, 48), low_rank(64, 16, 128)])
def test_no_tile_is_turned(program: KernelGraph) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in program.inputs]
    (expected,) = evaluate_floats(program, inputs)
    found = superoptimize(program, H200, FAST).candidates
    for candidate in found:
        (got,) = evaluate_floats(candidate.graph, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)
    turned = [
        op
        for launch in launches(found[0].graph.ops)
        for op in all_ops(launch.body.ops)
        if isinstance(op, Transpose)
    ]
    assert not turned
    check_lowering(found[0].graph, program)
