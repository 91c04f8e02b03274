"""Programs with conversions of whole numbers, truth values and what is not a number."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.conversions import OTHER_CONVERSIONS, SAME_CONVERSIONS
from written.pairs import Pair, verdict_of

ALL = SAME_CONVERSIONS + OTHER_CONVERSIONS


@pytest.mark.parametrize("pair", some_of(SAME_CONVERSIONS, 3), ids=lambda pair: pair.name)
def test_the_same_conversion_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", some_of(OTHER_CONVERSIONS, 2), ids=lambda pair: pair.name)
def test_another_conversion_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict
