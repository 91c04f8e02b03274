"""Common programs in other spellings: those that are the same are accepted, their wrong twins are
not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.experts_right import EXPERTS_RIGHT
from written.experts_wrong import EXPERTS_WRONG
from written.limits_right import LIMITS_RIGHT
from written.limits_wrong import LIMITS_WRONG
from written.literals import LITERALS_RIGHT, LITERALS_WRONG
from written.pairs import Pair, verdict_of
from written.spellings_right import SPELLINGS_RIGHT
from written.spellings_wrong import SPELLINGS_WRONG
from written.tables_right import TABLES_RIGHT
from written.tables_wrong import TABLES_WRONG

RIGHT = (*SPELLINGS_RIGHT, *EXPERTS_RIGHT, *LIMITS_RIGHT, *TABLES_RIGHT, *LITERALS_RIGHT)
WRONG = (*SPELLINGS_WRONG, *EXPERTS_WRONG, *LIMITS_WRONG, *TABLES_WRONG, *LITERALS_WRONG)


@pytest.mark.parametrize("pair", some_of(RIGHT, every=24), ids=lambda pair: pair.name)
def test_another_spelling_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, RIGHT)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(WRONG, every=8), ids=lambda pair: pair.name)
def test_a_wrong_twin_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, WRONG)
    assert not verdict.accepted, verdict
