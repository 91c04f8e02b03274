"""Functions at the edges of their domains: other forms of them are accepted, and other functions
are not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from mirage.verify import Kind, VerifyOptions
from mirage.verify.assumptions import Assumptions
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.edges_right import EDGES_RIGHT, MEANS, sparsemax
from written.edges_wrong import EDGES_WRONG, NOT_DEFINED
from written.pairs import Pair, aligned_of, verdict_of


@pytest.mark.parametrize("pair", some_of(EDGES_RIGHT, every=8), ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, EDGES_RIGHT)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(EDGES_WRONG, every=3), ids=lambda pair: pair.name)
def test_a_wrong_twin_is_refuted(pair: Pair) -> None:
    verdict = verdict_of(pair, EDGES_WRONG)
    assert verdict.kind is Kind.REFUTED, verdict


@pytest.mark.parametrize("pair", NOT_DEFINED, ids=lambda pair: pair.name)
def test_what_is_not_defined_is_not_accepted(pair: Pair) -> None:
    assert not verdict_of(pair, NOT_DEFINED).accepted


def test_places_may_be_computed() -> None:
    """An index that is a formula of the inputs names an unknown row."""
    pair = Pair("sparsemax", "3x5", sparsemax, lambda x: sparsemax(x, looked_up=True))
    assert verdict_of(pair, [pair]).kind is not Kind.REFUTED


def test_a_count_has_the_sign_that_its_truth_values_give_it() -> None:
    assert verdict_of(MEANS, [MEANS]).kind is Kind.PROVED


def counted(places: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.one_hot(places, 6).float() @ table


ROWS = [Pair("rows", "5:i64 6x4", counted, F.embedding)]
OTHER_ROWS = [Pair("other rows", "5:i64 6x4", counted, lambda i, e: F.embedding(i, e.flip(0)))]


@pytest.mark.parametrize("assumed", [False, True])
def test_numbers_that_name_no_row(*, assumed: bool) -> None:
    """A product with zeros and ones is zero there, and a lookup means nothing."""
    options = VerifyOptions(seed=7, assume=Assumptions(indices_in_range=assumed))
    verdict = verify_aligned(aligned_of(ROWS[0], ROWS), options)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.accepted is assumed
    other = verify_aligned(aligned_of(OTHER_ROWS[0], OTHER_ROWS), options)
    assert other.kind is Kind.REFUTED, other


def test_numbers_that_name_no_row_of_a_table() -> None:
    table = torch.arange(24.0).reshape(6, 4).cos()
    one, other = (
        [Pair("held rows", "5:i64", lambda i: counted(i, table), lambda i, e=e: F.embedding(i, e))]
        for e in (table, table.flip(0))
    )
    options = VerifyOptions(seed=7, assume=Assumptions(indices_in_range=True))
    assert verify_aligned(aligned_of(one[0], one), options).accepted
    assert verify_aligned(aligned_of(other[0], other), options).kind is Kind.REFUTED


def test_a_lookup_that_is_not_shown_to_be_equal_is_not_refuted_outside() -> None:
    def picked(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(5), places]

    pair = Pair("picked", "5x6 5:i64", lambda x, i: (F.one_hot(i, 6) * x).sum(-1), picked)
    other = Pair("other", "5x6 5:i64", pair.first, lambda x, i: picked(x.flip(1), i))
    assert verdict_of(pair, [pair]).kind is not Kind.REFUTED
    assert verdict_of(other, [other]).kind is Kind.REFUTED
