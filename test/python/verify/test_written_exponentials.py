"""A softmax may be masked before or after its exponentials; similar programs that differ are not
accepted."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.exponentials_right import EXPONENTIALS_RIGHT
from written.exponentials_wrong import EXPONENTIALS_WRONG
from written.infinite_terms import INFINITE_RIGHT, INFINITE_WRONG
from written.pairs import Pair, verdict_of

RIGHT = (*EXPONENTIALS_RIGHT, *INFINITE_RIGHT)
WRONG = (*EXPONENTIALS_WRONG, *INFINITE_WRONG)
ALL = RIGHT + WRONG


@pytest.mark.parametrize("pair", some_of(RIGHT, every=8), ids=lambda pair: pair.name)
def test_the_same_masked_later_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.equivalent, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(WRONG, every=3), ids=lambda pair: pair.name)
def test_another_mask_is_not_accepted(pair: Pair) -> None:
    assert not verdict_of(pair, ALL).accepted
