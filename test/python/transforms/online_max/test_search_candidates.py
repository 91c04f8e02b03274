"""The rewrite on real candidates of the search, at sizes that tiles do not divide and with scores
that overflow.
"""

from __future__ import annotations

import numpy as np
import pytest
from mirage.cost import H200
from mirage.search.superoptimize import superoptimize
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import Launch, Loop, Mask, all_ops
from mirage.transforms import stabilize
from mirage.workloads import get
from mirage.workloads.attention import plain_attention, qk_norm_attention, scaled_attention
from mirage.workloads.served import grouped_attention
from mirage.workloads.workload import Workload
from thorough import some_of

PROGRAMS = [
    plain_attention("attention", "", 2, 8, 16, 100),
    plain_attention("prime", "", 1, 16, 16, 997),
    qk_norm_attention("qknorm", 2, 16, 32, 96),
    scaled_attention("causal", "", 2, 64, 16, 64, True),
    grouped_attention("rows", 1, 8, 2, 3, 16, 96),
    grouped_attention("lengths", 2, 6, 2, 1, 16, 97, "length"),
]


@pytest.mark.parametrize("program", some_of(PROGRAMS, every=2), ids=lambda w: w.name)
def test_every_candidate_is_stabilised(program: Workload) -> None:
    graph = program.graph()
    candidates = superoptimize(graph, H200).candidates
    assert candidates
    query, *others = (x.astype(np.float64) for x in program.numpy_inputs(seed=0))
    inputs = [query * 300, *others]
    (want,) = evaluate_floats(graph, inputs)
    (reference,) = evaluate_floats(graph, inputs, TypedFloat())
    allowed = 2 * np.linalg.norm(reference - want)
    for candidate in candidates:
        result = stabilize(candidate.graph)
        assert not result.unstable, candidate.description
        check_graph(result.graph)
        (exact,) = evaluate_floats(result.graph, inputs)
        np.testing.assert_allclose(exact, want, atol=1e-12)
        (typed,) = evaluate_floats(result.graph, inputs, TypedFloat())
        assert np.linalg.norm(typed - want) <= allowed, candidate.description
        for op in result.graph.ops:
            if isinstance(op, Launch):
                masks = [m.fill for m in all_ops(op.body.ops) if isinstance(m, Mask)]
                assert (
                    masks.count(0.0) == 0
                )  # scores of absent keys are minus infinity, nothing is masked twice


@pytest.mark.parametrize("name", ["gqa_bs8_kv4096", "gqa_bs16_kv4096", "mqa_bs8"])
def test_split_attention_of_the_catalogue_is_stabilised(name: str) -> None:
    """Combine kernels that loop over the splits, with denominators in the loop or outside."""
    looping = 0
    for candidate in superoptimize(get(name).graph(), H200).candidates:
        result = stabilize(candidate.graph)
        assert not result.unstable, [str(e) for e in result.unstable]
        check_graph(result.graph)
        first, *others = (op for op in result.graph.ops if isinstance(op, Launch))
        looping += any(isinstance(op, Loop) for o in others for op in all_ops(o.body.ops))
        if len(others) == 1:
            assert len(first.results) == 3  # numerators, denominators and maxima
    if name.startswith("gqa"):
        assert looping
