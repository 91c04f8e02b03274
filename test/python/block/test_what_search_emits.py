"""Candidates of the search become PTX that computes the program; it is executed with all checks."""

from __future__ import annotations

import pytest
from example_programs.search_programs import PROGRAMS, centred_sums, program_id
from lowering import check_graph
from mirage.cost import H200
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import stabilize


@pytest.mark.parametrize("program", PROGRAMS, ids=program_id)
def test_candidates(program: KernelGraph) -> None:
    candidates = superoptimize(program, H200).candidates
    assert candidates
    for candidate in candidates[:2]:
        check_graph(stabilize(candidate.graph).graph, program)


def test_two_loops_over_one_axis() -> None:
    """The second one is not the best for so few rows; it must be right all the same."""
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
