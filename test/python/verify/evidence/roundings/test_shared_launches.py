"""Common kernels of candidates are run once, and only these."""

from __future__ import annotations

import numpy as np
import pytest
from faults.programs import with_fault
from mirage.cost import TARGETS
from mirage.search import Planner, SearchLimits
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled, Shared, evaluate_sampled
from mirage.semantics.evaluation.parts_of_ops import Tensor
from mirage.semantics.region import demand
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.substitute import renewed
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.verify.evidence.roundings.shared_launches import common_launches


def program() -> KernelGraph:
    b = Builder()
    x, *weights = (
        Value(TensorType(s, DType.F16)) for s in ((24, 32), (32, 48), (48, 32), (32, 16))
    )
    y = x
    for w in weights:
        y = b.unary(UnaryFn.SILU, b.matmul(y, w))
    return KernelGraph("three", (x, *weights), tuple(b.ops), (y,))


@pytest.fixture(scope="module")
def candidates() -> list[KernelGraph]:
    limits = SearchLimits(candidates=8, matmuls=1, columns=300, plans=10)
    found = Planner(program(), TARGETS["sm_90a"], limits).run().candidates
    graphs = [decompose(c.graph) for c in found]
    return [g for g in graphs if sum(isinstance(op, Launch) for op in g.ops) == 3][:5]


def demands_of(graphs: list[KernelGraph], rows: list[int] | None = None):
    part = None if rows is None else np.array(rows)
    return [demand(g, [(part, None)]) for g in graphs]


def test_what_is_shared_is_the_same(candidates: list[KernelGraph]) -> None:
    assert len(candidates) >= 3
    graphs = [*candidates, renewed(candidates[0])]  # equal, whatever the names of values
    demands = demands_of(graphs)
    numbers = common_launches(graphs, demands)
    assert [*numbers[0].values()] == [*numbers[-1].values()]
    assert len(numbers[0]) == 3
    rng = np.random.default_rng(0)
    inputs = [
        Sampled((rng.standard_normal(v.shape).astype(np.float16).astype(np.float64),), (None, None))
        for v in graphs[0].inputs
    ]
    known: dict[int, tuple[Tensor, ...]] = {}
    for graph, wanted, common in zip(graphs, demands, numbers, strict=True):
        (alone,) = evaluate_sampled(graph, TypedFloat(), inputs, wanted)
        (found,) = evaluate_sampled(graph, TypedFloat(), inputs, wanted, Shared(common, known))
        np.testing.assert_array_equal(found.planes[0], alone.planes[0])
    launches = sum(isinstance(op, Launch) for g in graphs for op in g.ops)
    assert len(known) < launches


@pytest.mark.parametrize("fault", range(3))
def test_a_kernel_after_another_one_is_another_one(
    candidates: list[KernelGraph], fault: int
) -> None:
    """Ops on the result of a wrong kernel are not the same as on the result of a correct one."""
    right = candidates[0]
    wrong = with_fault(right, fault)
    numbers = common_launches([right, wrong], demands_of([right, wrong]))
    places = {op: i for i, op in enumerate(x for x in wrong.ops if isinstance(x, Launch))}
    shared = {places[op] for op in numbers[1] if isinstance(op, Launch)}
    assert fault not in shared
    assert shared == set(range(fault))


def test_other_positions_are_other_results(candidates: list[KernelGraph]) -> None:
    graph = candidates[0]
    again = renewed(graph)
    first, second = demands_of([graph], [0])[0], demands_of([again], [23])[0]
    launches = [op for op in graph.ops if isinstance(op, Launch)]
    others = [op for op in again.ops if isinstance(op, Launch)]
    moved = any(
        not np.array_equal(first.positions[a][n], second.positions[b][n])
        for a, b in zip(launches, others, strict=True)
        for n in first.positions[a]
    )
    numbers = common_launches([graph, again], [first, second])
    if moved:
        assert len(numbers[0]) < 3
    same = common_launches([graph, again], [first, demands_of([again], [0])[0]])
    assert len(same[0]) == 3
