"""Means over the elements that masks keep: another form of one is accepted, and another mean is
not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.counts import COUNTS_RIGHT, COUNTS_WRONG
from written.pairs import Pair, verdict_of

ALL = COUNTS_RIGHT + COUNTS_WRONG


@pytest.mark.parametrize("pair", some_of(COUNTS_RIGHT, every=4), ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted or (verdict.equivalent and not pair.rounding), verdict
    assert verdict.defined, verdict


@pytest.mark.parametrize("pair", some_of(COUNTS_WRONG, every=2), ids=lambda pair: pair.name)
def test_another_mean_is_not_shown_to_be_the_same(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict
    assert not verdict.equivalent or not verdict.defined, verdict
