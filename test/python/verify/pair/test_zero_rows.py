"""Attention whose empty rows are zeros: different forms of it are equal, and other programs are
not."""

from __future__ import annotations

import pytest
from thorough import some_of
from written.empty_rows_filled import ZERO_ROWS_RIGHT, ZERO_ROWS_WRONG
from written.pairs import Pair, verdict_of

ALL = ZERO_ROWS_RIGHT + ZERO_ROWS_WRONG


@pytest.mark.parametrize("pair", some_of(ZERO_ROWS_RIGHT, every=2), ids=lambda pair: pair.name)
def test_empty_rows_are_zeros(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.equivalent, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(ZERO_ROWS_WRONG, every=2), ids=lambda pair: pair.name)
def test_other_rows_are_not(pair: Pair) -> None:
    assert not verdict_of(pair, ALL).equivalent
