"""Programs as people write them: those that are the same are accepted, none of the others is."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from written.functions_right import SAME_FUNCTIONS
from written.functions_wrong import OTHER_FUNCTIONS
from written.pairs import Pair, verdict_of
from written.right import RIGHT
from written.wrong import WRONG

ALL = RIGHT + WRONG
FUNCTIONS = SAME_FUNCTIONS + OTHER_FUNCTIONS


@pytest.mark.parametrize("pair", RIGHT + SAME_FUNCTIONS, ids=lambda pair: pair.name)
def test_the_same_program_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, FUNCTIONS if pair in FUNCTIONS else ALL)
    assert verdict.equivalent, verdict
    assert verdict.defined
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", WRONG + OTHER_FUNCTIONS, ids=lambda pair: pair.name)
def test_what_is_nearly_the_same_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, FUNCTIONS if pair in FUNCTIONS else ALL)
    assert not verdict.accepted, verdict
    if not pair.rounding:
        assert verdict.kind is not Kind.PROVED or verdict.defined is False, verdict
