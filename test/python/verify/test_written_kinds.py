"""Programs of the kinds that models consist of, as people write them: equal ones are shown to be
equal; none of the others is accepted."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.kinds_right import KINDS_RIGHT
from written.kinds_wrong import KINDS_WRONG
from written.pairs import Pair, verdict_of

NOT_DEFINED = ("norm of a scaled row without eps",)  # 9 times a mean is zero if the mean is
"""Pairs that are equal, but not shown to be defined wherever the first is."""

ALL = KINDS_RIGHT + KINDS_WRONG


@pytest.mark.parametrize("pair", some_of(KINDS_RIGHT, every=24), ids=lambda pair: pair.name)
def test_the_same_program_of_a_kind_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.equivalent, verdict
    assert verdict.defined == (pair.name not in NOT_DEFINED), verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(KINDS_WRONG, every=8), ids=lambda pair: pair.name)
def test_another_program_of_a_kind_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict
    if not pair.rounding:
        assert not verdict.equivalent or verdict.defined is False, verdict
