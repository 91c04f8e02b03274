"""Programs of the kinds that models are made of, as people write them: those that are the same are
shown to be, but for a few, and none is refuted; none of the others is accepted."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from written.kinds_right import KINDS_RIGHT
from written.kinds_wrong import KINDS_WRONG
from written.pairs import Pair, verdict_of

KINDS_NOT_SHOWN = ()
"""Right ones that are unknown."""


@pytest.mark.parametrize("pair", KINDS_RIGHT, ids=lambda pair: pair.name)
def test_the_same_program_of_a_kind_is_not_refuted(pair: Pair) -> None:
    verdict = verdict_of(pair, KINDS_RIGHT)
    assert verdict.kind is not Kind.REFUTED, verdict
    assert verdict.equivalent == (pair.name not in KINDS_NOT_SHOWN), verdict
    assert verdict.defined or not verdict.equivalent, verdict
    assert verdict.accepted or not pair.rounding or not verdict.equivalent, verdict


@pytest.mark.parametrize("pair", KINDS_WRONG, ids=lambda pair: pair.name)
def test_another_program_of_a_kind_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, KINDS_WRONG)
    assert not verdict.accepted, verdict
    if not pair.rounding:
        assert not verdict.equivalent or verdict.defined is False, verdict
