"""Garbage collections are rare during a search, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from example_programs.search_programs import matmul
from mirage.cost import H200
from mirage.rare_collections import ALLOCATED, rare_collections
from mirage.search import SearchLimits, superoptimize


@pytest.fixture
def before() -> Iterator[tuple[int, int, int]]:
    known = gc.get_threshold()
    gc.set_threshold(600, 9, 8)
    yield gc.get_threshold()
    gc.set_threshold(*known)


def test_they_are_rare_within_and_as_before_afterwards(before: tuple[int, int, int]) -> None:
    def fail() -> None:
        with rare_collections(), rare_collections():
            assert gc.get_threshold() == (ALLOCATED, 9, 8)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.get_threshold() == before


def test_a_collector_that_never_runs_stays_so(before: tuple[int, int, int]) -> None:
    gc.set_threshold(0, *before[1:])
    with rare_collections():
        assert gc.get_threshold() == (0, *before[1:])
    assert gc.get_threshold() == (0, *before[1:])


def test_they_are_rare_in_a_search(before: tuple[int, int, int]) -> None:
    seen = set[int]()
    limits = SearchLimits(columns=200, candidates=1)
    superoptimize(
        matmul(64, 64, 64), H200, limits, watch=lambda *_: seen.add(gc.get_threshold()[0])
    )
    assert seen == {ALLOCATED}
    assert gc.get_threshold() == before
