"""Overlapping views of one tensor: the search counts their reads from device memory in the same way
as the prediction of the emitted kernels."""

from __future__ import annotations

import pytest
from mirage.cost import H200
from mirage.cost.predict import features_in, predict
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.search import SearchLimits, superoptimize
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.search.program.dag import Part
from mirage.search.program.parts import Program
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph

ROWS, COLUMNS = 2**15, 1024
VIEW = ROWS * COLUMNS * 2
"""The bytes of a view, which exceed L2."""
FEW = SearchLimits(candidates=2, samples=2, columns=500)
NEAR, APART = ((0, 0), (1, 0)), ((0, 0), (ROWS, 0))


def differences(*starts: tuple[int, int]) -> KernelGraph:
    """Sums of the absolute differences of views that begin at the given places."""
    g = GraphBuilder("differences")
    x = g.new_input((2 * ROWS, 2 * COLUMNS), DType.F16, name="x")
    first, second = (g.slice(x, start, (ROWS, COLUMNS)) for start in starts)
    g.mark_output(g.reduction(g.abs(first - second), 1))
    return g.build()


@pytest.mark.parametrize("starts", [NEAR, ((1, 8), (0, 0)), APART])
def test_written_kernels_count_as_they_are_predicted(starts: tuple[tuple[int, int], ...]) -> None:
    found = superoptimize(differences(*starts), H200, FEW).candidates
    assert found
    for candidate in found:
        (kernel,) = features_in(candidate.graph, H200)
        assert candidate.cost.bytes_read == pytest.approx(kernel.dram_read)
        assert (kernel.dram_read < 1.9 * VIEW) == (starts != APART)


def times(*starts: tuple[int, int]) -> list[float]:
    """Return the times that the search finds for sizes, before it emits kernels."""
    graph = differences(*starts)
    program = Program(graph, H200, SearchReport())
    stored = [v for v in program.definitions if v not in graph.outputs and program.stays(v)]
    problem = program.region(graph.outputs, stored).problem()
    return [p.time for p in KernelSolver(H200, FEW, SearchReport()).solve(problem)]


def test_tables_of_the_search_count_common_elements_once() -> None:
    """Tiles of many rows have nearly everything in common; the rest is bound by L2."""
    assert min(times(*NEAR)) < 0.8 * min(times(*APART))


def test_no_kernel_is_faster_than_the_least_time() -> None:
    """Nearly all of the second view is in the first one."""
    graph = differences(*NEAR)
    program = Program(graph, H200, SearchReport())
    best = predict(superoptimize(graph, H200, FEW).candidates[0].graph, H200)
    assert best is not None
    last = program.nodes.index(graph.outputs[0])
    slices = sum(1 << i for i, v in enumerate(program.nodes) if program.stays(v))
    assert 0.5 * best.time < program.floor(Part((last,), slices)) <= best.time
