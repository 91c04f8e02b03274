"""Common programs in other spellings: those that are the same are accepted, their wrong twins are
not."""

from __future__ import annotations

import pytest
from written.pairs import Pair, verdict_of
from written.spellings_right import SPELLINGS_RIGHT
from written.spellings_wrong import SPELLINGS_WRONG


@pytest.mark.parametrize("pair", SPELLINGS_RIGHT, ids=lambda pair: pair.name)
def test_another_spelling_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, SPELLINGS_RIGHT)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", SPELLINGS_WRONG, ids=lambda pair: pair.name)
def test_a_wrong_twin_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, SPELLINGS_WRONG)
    assert not verdict.accepted, verdict
