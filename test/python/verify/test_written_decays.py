"""Decays, powers, chosen scores and rotary tables: those that are the same are
accepted, their wrong twins are not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.decays_right import DECAYS_RIGHT
from written.decays_wrong import DECAYS_WRONG
from written.pairs import Pair, verdict_of


@pytest.mark.parametrize("pair", some_of(DECAYS_RIGHT, every=8), ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, DECAYS_RIGHT)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(DECAYS_WRONG, every=3), ids=lambda pair: pair.name)
def test_a_wrong_twin_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, DECAYS_WRONG)
    assert not verdict.accepted, verdict
    assert not verdict.equivalent or not verdict.defined, verdict
