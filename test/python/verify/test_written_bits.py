"""Calls that compute bits are read as arithmetic: other spellings are accepted, and none that
differs."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from written.bits import BITS_RIGHT, BITS_WRONG
from written.pairs import Pair, verdict_of

ALL = BITS_RIGHT + BITS_WRONG


@pytest.mark.parametrize("pair", BITS_RIGHT, ids=lambda pair: pair.name)
def test_the_same_function_of_bits_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", BITS_WRONG, ids=lambda pair: pair.name)
def test_another_function_of_bits_is_not(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.kind in (Kind.REFUTED, Kind.UNKNOWN), verdict


def test_numbers_that_vanish_because_they_wrap_are_not_refuted() -> None:
    """A sign bit times 2 is 0."""
    pair = Pair("wrapped", "6x12:i32", lambda a: a * 0, lambda a: (a & -(1 << 31)) * 2)
    verdict = verdict_of(pair, [pair])
    assert verdict.kind is not Kind.REFUTED, verdict
