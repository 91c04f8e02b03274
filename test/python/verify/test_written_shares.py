"""Shares of the largest elements, filters, sorted rows and angles: those that are the same are
accepted, their wrong twins are not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.pairs import Pair, verdict_of
from written.shares_right import SHARES_RIGHT
from written.shares_wrong import SHARES_WRONG


@pytest.mark.parametrize("pair", some_of(SHARES_RIGHT, every=8), ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, SHARES_RIGHT)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(SHARES_WRONG, every=6), ids=lambda pair: pair.name)
def test_a_wrong_twin_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, SHARES_WRONG)
    assert not verdict.accepted, verdict
    assert not verdict.equivalent or not verdict.defined, verdict
