"""Programs for serving models: equal ones are accepted, none of the others is."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from thorough import some_of
from written.pairs import Pair, verdict_of
from written.serving_right import SERVING_RIGHT
from written.serving_wrong import SERVING_WRONG

NOT_SHOWN = ("loss by a gather",)  # a place in a row of many rows
"""Equal pairs whose verdict is unknown."""

ALL = SERVING_RIGHT + SERVING_WRONG


@pytest.mark.parametrize("pair", some_of(SERVING_RIGHT, every=12), ids=lambda pair: pair.name)
def test_the_same_program_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.kind is not Kind.REFUTED, verdict
    assert verdict.accepted == (pair.name not in NOT_SHOWN), verdict


@pytest.mark.parametrize("pair", some_of(SERVING_WRONG, every=8), ids=lambda pair: pair.name)
def test_another_program_is_not_accepted(pair: Pair) -> None:
    assert not verdict_of(pair, ALL).accepted
