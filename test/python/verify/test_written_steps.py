"""Steps of optimisers and recurrences: those that are the same are accepted, their wrong twins are
not."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from thorough import some_of
from written.pairs import Pair, verdict_of
from written.steps_right import STEPS_RIGHT
from written.steps_wrong import STEPS_WRONG


@pytest.mark.parametrize("pair", some_of(STEPS_RIGHT), ids=lambda pair: pair.name)
def test_another_way_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, STEPS_RIGHT)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(STEPS_WRONG, every=2), ids=lambda pair: pair.name)
def test_a_wrong_twin_is_refuted(pair: Pair) -> None:
    verdict = verdict_of(pair, STEPS_WRONG)
    assert verdict.kind is Kind.REFUTED, verdict
