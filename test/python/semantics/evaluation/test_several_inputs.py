"""Several sets of inputs evaluated at once give the same results as each of them alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from example_programs import graphs
from example_programs.random_graphs import random_graph
from example_programs.read_loops import READ
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Domain, Float64, TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_sampled
from mirage.semantics.evaluation.parts_of_ops import EvaluationError
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.indexing.indices import simplify
from mirage.semantics.positions import gather
from mirage.semantics.region import Demand, demand, region_shape
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.roundings.explicit import WithCasts
from mirage.verify.evidence.roundings.side_by_side import stacked
from thorough import some_of

DOMAINS: tuple[type[Domain], ...] = (TypedFloat, Float64, WithCasts)
PAIRS = graphs.small_pairs()
PROGRAMS = {
    "/".join((name, kind)): graph
    for name, pair in PAIRS.items()
    for kind, graph in {"reference": pair.reference, **pair.candidates}.items()
} | {name: loaded(case.graph()) for name, case in READ.items()}


def inputs_of(graph: KernelGraph, wanted: Demand, rng: np.random.Generator) -> list[Sampled]:
    """Numbers of all sizes, a few of them infinite or NaN; integers within a table."""
    found: list[Sampled] = []
    for v in graph.inputs:
        region = wanted.regions.get(v, (None,) * len(v.shape))
        shape = region_shape(region, v.shape)
        if v.dtype.is_integer:
            x = rng.integers(-3, 70, shape).astype(np.float64)
        else:
            x = rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4)
            if x.size and rng.random() < 0.2:
                x.ravel()[rng.integers(x.size)] = rng.choice([np.nan, np.inf, -np.inf, 0.0])
            x = v.dtype.round(x)
        found.append(Sampled((x,), region))
    return found


def alone(
    graph: KernelGraph, domain: type[Domain], inputs: Sequence[Sampled], wanted: Demand
) -> list[np.ndarray] | None:
    try:
        found = evaluate_sampled(graph, domain(), inputs, wanted)
    except EvaluationError:  # a NaN that several blocks store
        return None
    return [x.planes[0] for x in found]


def check(graph: KernelGraph, wanted: Demand, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [inputs_of(graph, wanted, rng) for _ in range(3)]
    for i in range(len(graph.inputs)):  # some inputs are the same for all
        if rng.random() < 0.4:
            for other in sets[1:]:
                other[i] = sets[0][i]
    for domain in DOMAINS:
        expected = [alone(graph, domain, inputs, wanted) for inputs in sets]
        if None in expected:
            continue
        found = evaluate_sampled(graph, domain(), stacked(sets), wanted, sets=1)
        for k, outputs in enumerate(expected):
            assert outputs is not None
            for x, y in zip(outputs, found, strict=True):
                part = y.planes[0][min(k, len(y.planes[0]) - 1)]
                np.testing.assert_array_equal(part, x, strict=True)
                np.testing.assert_array_equal(np.signbit(part), np.signbit(x))


def parts_of(graph: KernelGraph, rng: random.Random) -> Demand:
    """Some of the indices of each dimension of each output."""
    regions = [
        tuple(
            simplify(np.array(sorted(rng.sample(range(n), rng.randint(1, n)))), n) for n in v.shape
        )
        for v in graph.outputs
    ]
    return demand(graph, regions)


@pytest.mark.parametrize("name", some_of(PROGRAMS))
@pytest.mark.parametrize("seed", range(3))
def test_programs_of_the_families(name: str, seed: int) -> None:
    graph = decompose(PROGRAMS[name], stable=True)
    check(graph, parts_of(graph, random.Random(seed)), seed)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 32))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    try:
        check_graph(graph)
    except InvalidGraph:
        return
    check(graph, parts_of(graph, rng), seed)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_integers_name(seed: int) -> None:
    """Each set has a table, or indices, of its own, or both."""
    table, at = Value(TensorType((7, 5), DType.F16)), Value(TensorType((4,), DType.I64))
    b = Builder()
    y = gather(b, table, at)
    graph = KernelGraph("rows", (table, at), tuple(b.ops), (y,))
    check(graph, parts_of(graph, random.Random(seed)), seed)
