"""Random programs: all results of the search are correct."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.random_programs import Generator
from mirage.cost import H200, check_launch
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import Launch
from thorough import some_of


@pytest.mark.parametrize("seed", some_of(range(100), 8))
def test_candidates_compute_random_programs(seed: int) -> None:
    graph = Generator(seed).graph()
    if graph is None:
        return
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(v.shape) * 0.5 for v in graph.inputs]
    expected = evaluate_floats(graph, inputs)
    if not all(np.isfinite(x).all() for x in expected):
        return
    limits = SearchLimits(candidates=4, plans=8, columns=1000)
    result = superoptimize(graph, H200, limits)
    assert result.candidates
    for candidate in result.candidates:
        check_graph(candidate.graph)
        for op in candidate.graph.ops:
            if isinstance(op, Launch):
                check_launch(op, H200)
        for got, want in zip(evaluate_floats(candidate.graph, inputs), expected, strict=True):
            assert got.shape == want.shape
            assert np.max(np.abs(got - want)) <= 1e-7 * max(1.0, float(np.max(np.abs(want))))
