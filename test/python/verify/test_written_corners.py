"""Corner cases as people write them: casts that matter, ties, completely masked rows, whole
numbers, losses. Equal ones are not refuted and, except for a few, shown to be equal; none of the
others is accepted."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from thorough import some_of
from written.casts_right import CASTS_RIGHT
from written.casts_wrong import CASTS_WRONG
from written.corners_right import CORNERS_RIGHT
from written.corners_wrong import CORNERS_WRONG
from written.pairs import Pair, verdict_of

CASTS = CASTS_RIGHT + CASTS_WRONG
CORNERS = CORNERS_RIGHT + CORNERS_WRONG
NOT_SHOWN = (
    "nothing seen is zero",
    "largest of what is bounded",  # the meaning of an order
    "first of the largest by places",
)
"""Equal pairs whose verdict is unknown."""


@pytest.mark.parametrize("pair", some_of(CASTS_RIGHT, every=8), ids=lambda pair: pair.name)
def test_casts_may_be_left_out_where_they_are_noise(pair: Pair) -> None:
    verdict = verdict_of(pair, CASTS)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", some_of(CASTS_WRONG), ids=lambda pair: pair.name)
def test_a_cast_that_a_program_is_about_is_kept(pair: Pair) -> None:
    assert not verdict_of(pair, CASTS).accepted


@pytest.mark.parametrize("pair", some_of(CORNERS_RIGHT, every=24), ids=lambda pair: pair.name)
def test_the_same_program_at_a_corner_is_not_refuted(pair: Pair) -> None:
    verdict = verdict_of(pair, CORNERS)
    assert verdict.kind is not Kind.REFUTED, verdict
    assert verdict.equivalent == (pair.name not in NOT_SHOWN), verdict
    assert verdict.accepted or not pair.rounding or not verdict.equivalent, verdict


@pytest.mark.parametrize("pair", some_of(CORNERS_WRONG, every=8), ids=lambda pair: pair.name)
def test_another_program_at_a_corner_is_not_accepted(pair: Pair) -> None:
    assert not verdict_of(pair, CORNERS).accepted
