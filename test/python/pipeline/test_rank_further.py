"""Further candidates are compiled if all that are compiled turn out slower than predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_programs.built import linear
from mirage.cost import CostReport
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.mlir_io import graph_from_text
from mirage.pipeline import rank
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Finalist
from mirage.pipeline.select import select_cheapest
from mirage.semantics.ugraph import KernelGraph

H200 = target_for("sm_90a")


@pytest.fixture(scope="module")
def verified() -> KernelGraph:
    """A program with several verified candidates."""
    options = OptimizeOptions(chip="sm_90a", verify_seed=0, jobs=1, compile=False, candidates=6)
    return graph_from_text(optimize(linear(512, 256), options).mlir["verified"]).graph


@pytest.mark.parametrize(
    ("slower", "compiled", "best"),
    [(1.0, [0, 1], 0), (3.0, [0, 1, 2], 2)],
    ids=["as predicted", "slower than predicted"],
)
def test_the_next_one_is_compiled_while_it_may_be_the_fastest(
    slower: float,
    compiled: list[int],
    best: int,
    verified: KernelGraph,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first two take ``slower`` times as long as predicted, once their registers are known."""
    seen: list[int] = []

    def cost(graph: KernelGraph) -> CostReport:
        found = predict(graph, H200)
        assert found is not None
        return found

    def finalist(graph: KernelGraph, place: int, *_: object) -> Finalist:
        seen.append(place)
        found = cost(graph)
        return Finalist(
            graph, (), place, replace(found, time=found.time * (slower if place < 2 else 1.0)), 0
        )

    times = [cost(select_cheapest(verified, H200, place)[0]).time for place in range(4)]
    assert times[2] < 3.0 * times[0]
    assert times[2] <= times[3]
    monkeypatch.setattr(rank, "finalist", finalist)
    found = rank.finalists(verified, H200, 2, lambda _: (), lambda _: None)
    assert seen == compiled
    assert found[0].place == best
    assert len(found) == 2


def test_no_further_one_is_compiled_without_time(
    verified: KernelGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finalist(graph: KernelGraph, place: int, *_: object) -> Finalist:
        found = predict(graph, H200)
        assert found is not None
        return Finalist(graph, (), place, replace(found, time=1e6), 0)

    monkeypatch.setattr(rank, "finalist", finalist)
    left = iter([True, False])
    found = rank.finalists(
        verified, H200, 2, lambda _: (), lambda _: None, goes_on=lambda: next(left)
    )
    assert [f.place for f in found] == [0, 1]
