"""Candidates of the search become PTX that computes the program; it is executed with all checks."""

from __future__ import annotations

import pytest
from example_programs.search_programs import PROGRAMS, centred_sums, graph, program_id, tensor
from lowering import check_graph
from mirage.cost import H200
from mirage.cost.compilable import MAX_LONG
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph, Matmul, all_ops, launches
from mirage.transforms import stabilize
from thorough import some_of


@pytest.mark.parametrize("program", some_of(PROGRAMS, 12), ids=program_id)
def test_candidates(program: KernelGraph) -> None:
    candidates = superoptimize(program, H200).candidates
    assert candidates
    for candidate in candidates[:2]:
        check_graph(stabilize(candidate.graph).graph, program)


def test_two_loops_over_one_axis() -> None:
    """The second one is not the best for so few rows, but must be correct, too."""
    program = centred_sums(3, 350)
    plain = decompose(program)
    definitions = {r: op for op in plain.ops for r in op.results}
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    problem = KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain))
    picks = solver.solve(problem)
    twice = [p for p in picks if p.draft is not None and p.draft.kind.passes == 2]
    assert twice
    for pick in twice[:2]:
        solution = solver.write(pick)
        assert solution is not None
        graph = KernelGraph("twice", program.inputs, solution.ops, plain.outputs)
        check_graph(graph, program)


def test_long_tiles_of_few_rows() -> None:
    """Keys are split among blocks, each of which has all 512 columns of values of 16 rows."""
    b, scores, values = Builder(), tensor("s", 16, 4096), tensor("v", 4096, MAX_LONG)
    program = graph("latent", (scores, values), b, b.matmul(b.softmax(scores, 1), values))
    best = stabilize(superoptimize(program, H200).candidates[0].graph).graph
    first, _ = launches(best.ops)
    assert any(o.value.shape[-2:] == (16, MAX_LONG) for o in first.body.outputs)
    check_graph(best, program)


@pytest.mark.parametrize(("rows", "columns"), [(32, MAX_LONG), (16, 2 * MAX_LONG)])
def test_longer_tiles_are_refused(rows: int, columns: int) -> None:
    b, x, w = Builder(), tensor("x", rows, 64), tensor("w", 64, columns)
    program = graph("product", (x, w), b, b.matmul(x, w))
    for candidate in superoptimize(program, H200).candidates:
        for kernel in launches(candidate.graph.ops):
            for op in all_ops(kernel.body.ops):
                assert (
                    not isinstance(op, Matmul)
                    or op.result.shape[-1] <= MAX_LONG // 2
                    or (rows <= 16 and op.result.shape[-1] <= MAX_LONG)
                )
