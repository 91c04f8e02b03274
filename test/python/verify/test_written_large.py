"""Programs at the sizes of models: equal ones are shown to be equal quickly; none of the others is
accepted."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.large_right import LARGE_RIGHT
from written.large_wrong import LARGE_WRONG
from written.pairs import Pair, verdict_of

ALL = LARGE_RIGHT + LARGE_WRONG


@pytest.mark.parametrize("pair", some_of(LARGE_RIGHT, every=24), ids=lambda pair: pair.name)
def test_the_same_program_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(LARGE_WRONG, every=3), ids=lambda pair: pair.name)
def test_another_program_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.equivalent, verdict
