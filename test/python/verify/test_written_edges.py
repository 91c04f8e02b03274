"""Functions at the edges of where they are defined: other words for them are accepted, and other
functions are not."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from written.edges_right import EDGES_RIGHT, MEANS, sparsemax
from written.edges_wrong import EDGES_WRONG, NOT_DEFINED
from written.pairs import Pair, verdict_of


@pytest.mark.parametrize("pair", EDGES_RIGHT, ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, EDGES_RIGHT)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", EDGES_WRONG, ids=lambda pair: pair.name)
def test_a_wrong_twin_is_refuted(pair: Pair) -> None:
    verdict = verdict_of(pair, EDGES_WRONG)
    assert verdict.kind is Kind.REFUTED, verdict


@pytest.mark.parametrize("pair", NOT_DEFINED, ids=lambda pair: pair.name)
def test_what_is_not_defined_is_not_accepted(pair: Pair) -> None:
    assert not verdict_of(pair, NOT_DEFINED).accepted


def test_places_may_be_computed() -> None:
    """An index that is a formula of the inputs names no row that is known."""
    pair = Pair("sparsemax", "3x5", sparsemax, lambda x: sparsemax(x, looked_up=True))
    assert verdict_of(pair, [pair]).kind is not Kind.REFUTED


def test_a_count_has_the_sign_that_its_truth_values_give_it() -> None:
    assert verdict_of(MEANS, [MEANS]).kind is Kind.PROVED
