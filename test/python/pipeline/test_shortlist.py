"""The candidates that are worth verifying."""

from __future__ import annotations

from collections import Counter

import pytest
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.pipeline.search import add_candidates
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.transforms import Exponential
from mirage.workloads import get

TARGET = target_for("sm_90a")


@pytest.fixture(scope="module")
def candidates() -> tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]]:
    graph, _ = add_candidates(
        get("gqa_bs8_kv4096").graph(), TARGET, SearchLimits(candidates=18, seed=0)
    )
    return stabilize_candidates(graph)


def alternatives(graph: KernelGraph) -> Alternatives:
    (op,) = (op for op in graph.ops if isinstance(op, Alternatives))
    return op


def test_the_cheapest_stable_ones_come_first(
    candidates: tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]],
) -> None:
    graph, exponentials = candidates
    before = alternatives(graph)
    short, (places,) = shortlist(graph, TARGET, 6, exponentials)
    after = alternatives(short)
    assert len(places) == len(set(places)) == 6
    assert after.programs == (before.programs[0], *(before.programs[p + 1] for p in places))
    assert before.costs is not None
    assert after.costs == (None, *(before.costs[p + 1] for p in places))
    times = [cost.time for p in after.programs[1:] if (cost := predict(p, TARGET)) is not None]
    assert times == sorted(times)
    assert len(times) == 6
    everything = [predict(p, TARGET) for p in before.programs[1:]]
    assert times[0] == min(cost.time for cost in everything if cost is not None)


def test_unstable_ones_come_last(
    candidates: tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]],
) -> None:
    graph, exponentials = candidates
    _, ((best, *_),) = shortlist(graph, TARGET, 6, exponentials)
    spoiled = list(exponentials)
    spoiled[best] = (Exponential(0, 0, "a reason"),)
    _, (places,) = shortlist(graph, TARGET, 6, spoiled)
    assert best not in places
    _, (everything,) = shortlist(graph, TARGET, 100, spoiled)
    assert everything[-1] == best
    assert len(everything) == len(alternatives(graph).programs) - 1


def test_equal_shapes_do_not_crowd_out_others(
    candidates: tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]],
) -> None:
    graph, exponentials = candidates
    short, _ = shortlist(graph, TARGET, 6, exponentials)
    shapes = Counter(
        tuple((op.grid, op.schedule) for op in p.ops if isinstance(op, Launch))
        for p in alternatives(short).programs[1:]
    )
    assert len(shapes) > 2


def test_without_the_exponentials_they_are_found_again(
    candidates: tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]],
) -> None:
    graph, exponentials = candidates
    _, told = shortlist(graph, TARGET, 6, exponentials)
    _, found = shortlist(graph, TARGET, 6)
    assert found == told
