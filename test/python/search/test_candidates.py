"""Every candidate computes the same as its program, at all sizes; checked in float64."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import (
    LARGER,
    PROGRAMS,
    attention,
    centred_sums,
    layer_norm_linear_gelu,
    lora,
    matmul,
    program_id,
    rms_linear,
    rms_swiglu_down,
)
from mirage.cost import A100, H200, check_launch
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph, Launch, Reshape
from mirage.workloads.served import rms_silu_linear
from thorough import some_of

TWO_LOOPS = ("rms_silu_linear", "centred_sums")
"""A function of the norm is summed: a single loop is not enough."""


def check_all(graph: KernelGraph, limits: SearchLimits) -> None:
    result = superoptimize(graph, H200, limits)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) * 0.5 for v in graph.inputs]
    (expected,) = evaluate_floats(graph, inputs)
    assert result.candidates
    for candidate in result.candidates:
        check_graph(candidate.graph)
        for op in candidate.graph.ops:
            assert isinstance(op, Launch | Reshape)
            if isinstance(op, Launch):
                check_launch(op, H200)
        (got,) = evaluate_floats(candidate.graph, inputs)
        assert np.max(np.abs(got - expected)) <= 1e-9 * max(1.0, float(np.max(np.abs(expected))))


@pytest.mark.parametrize("graph", some_of(PROGRAMS + LARGER, 6), ids=program_id)
def test_candidates_compute_the_program(graph: KernelGraph) -> None:
    check_all(graph, SearchLimits(candidates=8, plans=12))


@pytest.mark.parametrize(
    "graph",
    some_of(
        [
            rms_linear(2, 352, 48),
            rms_swiglu_down(2, 96, 160),
            attention(1, 16, 352, 16),
            layer_norm_linear_gelu(2, 352, 32),
            lora(4, 352, 16, 32),
            matmul(16, 352, 16),
            rms_silu_linear("rms_silu_linear", 2, 350, 48).graph(),
            centred_sums(3, 350),
        ],
        every=3,
    ),
    ids=lambda g: g.name,
)
def test_every_frame_type_computes_the_program(graph: KernelGraph) -> None:
    """Loops and grid sums that a small program would not choose, with parts that do not divide."""
    from mirage.search.algebra.axes import AxisTable
    from mirage.search.kernel.problems.problem import KernelProblem
    from mirage.search.kernel.solver import KernelSolver
    from mirage.search.limits import SearchReport
    from mirage.semantics.decompose import decompose

    plain = decompose(graph)
    definitions = {r: op for op in plain.ops for r in op.results}
    solver = KernelSolver(H200, SearchLimits(derivations=4), SearchReport())
    problem = KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) * 0.5 for v in graph.inputs]
    (expected,) = evaluate_floats(graph, inputs)
    kinds: dict[str, int] = {}
    for pick in solver.solve(problem):
        assert pick.draft is not None
        kind = str(pick.draft.kind)
        if kinds.get(kind, 0) >= 4:
            continue
        solution = solver.write(pick)
        if solution is None:
            continue
        kinds[kind] = kinds.get(kind, 0) + 1
        candidate = KernelGraph(graph.name, graph.inputs, solution.ops, plain.outputs)
        check_graph(candidate)
        (got,) = evaluate_floats(candidate, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10, err_msg=kind)
    several = graph.name in TWO_LOOPS or any("three times" in kind for kind in kinds)
    assert len(kinds) >= (2 if several else 3), kinds
    # if f16 could not hold an operand, statistics may also come first
    assert any("twice" in kind for kind in kinds) or graph.name not in TWO_LOOPS, kinds


def test_other_chips_have_their_own_limits() -> None:
    for candidate in superoptimize(attention(4, 64, 1024, 64), A100).candidates:
        for op in candidate.graph.ops:
            assert isinstance(op, Launch)
            check_launch(op, A100)
