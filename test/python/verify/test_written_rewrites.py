"""Ranks, rounded limits, odds and losses, rewritten: those that are the same are
accepted, their wrong twins are not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.pairs import Pair, verdict_of
from written.rewrites_right import REWRITES_RIGHT
from written.rewrites_wrong import REWRITES_WRONG


@pytest.mark.parametrize("pair", some_of(REWRITES_RIGHT, every=24), ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, REWRITES_RIGHT)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(REWRITES_WRONG, every=3), ids=lambda pair: pair.name)
def test_a_wrong_twin_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, REWRITES_WRONG)
    assert not verdict.accepted, verdict
    assert not verdict.equivalent or not verdict.defined, verdict
