"""Work that only a later loop over an axis does counts once, as in the launch that is emitted."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200, features_of
from mirage.cost.kernel_features import KernelFeatures
from mirage.search import SearchLimits, SearchReport
from mirage.search.kernel.emission.launches import Draft
from mirage.search.kernel.estimates.derivation_costs import Stored
from mirage.search.kernel.solver import KernelSolver
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, launches

ROWS, WIDTH, COLUMNS = 32, 4096, 512


def weighted_norm() -> KernelGraph:
    """A row divided by its length, times a gain and a matrix, which are needed only after the
    length is known."""
    x, gain, w = tensor("x", ROWS, WIDTH), tensor("gain", WIDTH), tensor("w", WIDTH, COLUMNS)
    b = Builder()
    length = b.unary(UnaryFn.EXP, b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (1,)))
    known = b.unary(UnaryFn.SIGMOID, b.binary(BinaryFn.ADD, x, length))
    return graph("weighted_norm", (x, gain, w), b, b.matmul(b.binary(BinaryFn.MUL, known, gain), w))


def estimated(draft: Draft) -> KernelFeatures:
    """Return the features of a draft at its sizes."""
    problem, dims = draft.analysis.problem, draft.analysis.dims
    stored = [Stored(v.type, own) for v, own in zip(problem.outputs, dims, strict=True)]
    return draft.measure.features(draft.edges, stored)[0].at(draft.column)


def test_loads_of_a_later_loop_count_once() -> None:
    program = Program(weighted_norm(), H200, SearchReport())
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    region = program.region(program.graph.outputs, ())
    found = 0
    for pick in solver.solve(region.problem()):
        draft = pick.draft
        if draft is None or draft.kind.passes == 1 or draft.kind.split is not None:
            continue
        if (solution := solver.write(pick)) is None:
            continue
        (kernel,) = launches(solution.ops)
        written, features = features_of(kernel), estimated(draft)
        assert features.load_step == pytest.approx(written.load_step)
        assert features.dram_read == pytest.approx(written.dram_read)
        found += 1
    assert found > 3
