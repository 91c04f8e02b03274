"""Tiles are summed in their orientation: over columns and rows, without a transpose of loaded
tiles."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import check_graph as check_lowering
from mirage.cost import H200
from mirage.frontend.kernel_graph import new_kernel_graph
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import (
    KernelGraph,
    Loop,
    RunningMax,
    Transpose,
    all_ops,
    launches,
)
from mirage.transforms import stabilize

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


def sums_of_exponentials(rows: int, columns: int) -> KernelGraph:
    """Return the logarithms of the sums of exponentials of each row."""
    graph = new_kernel_graph("sums")
    x = graph.new_input((rows, columns), DType.F16, name="x")
    graph.mark_output(graph.unary(UnaryFn.LOG, graph.reduction(graph.unary(UnaryFn.EXP, x), 1)))
    return graph.build()


def test_sums_of_steps_are_added_up_as_they_lie() -> None:
    """They are rescaled by the maximum to which the exponentials are relative: there is one for
    each row, and not a second one in the orientation of the result."""
    found = superoptimize(sums_of_exponentials(64, 65536), H200, FAST).candidates
    summed_in_steps = 0
    for candidate in found:
        for launch in launches(stabilize(candidate.graph).graph.ops):
            ops = list(all_ops(launch.body.ops))
            maxima = [op for op in ops if isinstance(op, RunningMax)]
            rescaled = [
                a for loop in ops if isinstance(loop, Loop) for a in loop.accumulators if a.rescale
            ]
            assert len(maxima) <= 1
            assert all(a.value.shape == a.rescale.shape for a in rescaled if a.rescale)
            summed_in_steps += len(rescaled)
    assert summed_in_steps


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
