"""Moments and distances as people write them: forms that keep their digits are accepted, those that
lose them on rows far from zero are not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.moments_right import MOMENTS_RIGHT
from written.moments_wrong import MOMENTS_WRONG
from written.pairs import Pair, verdict_of

ALL = MOMENTS_RIGHT + MOMENTS_WRONG


@pytest.mark.parametrize("pair", some_of(MOMENTS_RIGHT, every=8), ids=lambda pair: pair.name)
def test_a_form_that_keeps_its_digits_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", some_of(MOMENTS_WRONG, every=3), ids=lambda pair: pair.name)
def test_a_form_that_loses_its_digits_is_equal_and_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.equivalent, verdict
    assert not verdict.accepted, verdict
