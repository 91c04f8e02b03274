"""Calls that compute bits are read as arithmetic: other spellings are accepted, and none that
differs."""

from __future__ import annotations

import pytest
from mirage.verify import Kind, Verdict, VerifyOptions
from mirage.verify.assumptions import Assumptions
from mirage.verify.verifier import verify_aligned
from written.bits import BITS_RIGHT, BITS_WRONG, LONG, TWO
from written.pairs import Pair, aligned_of, verdict_of

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


FIT = (
    Pair(
        "larger by one", LONG, lambda a, b: (a + 1 > a) ^ (b > 0), lambda a, b: (a == a) ^ (b > 0)
    ),
    Pair("no sum", LONG, lambda a, b: a + b > a, lambda a, b: b > 0),
    Pair("no sum of 32 bits", TWO, lambda a, b: a - b > 0, lambda a, b: b - a < 0),
)
WRAPPED = (
    Pair("the same sum", TWO, lambda a, b: (a + b) // 2, lambda a, b: (b + a) // 2),
    Pair("the same long sum", LONG, lambda a, b: (a + b) // 2, lambda a, b: (b + a) // 2),
    Pair("only sums", LONG, lambda a, b: (a + b) * 2 - b, lambda a, b: a + b + a),
)


def without_assumption(pair: Pair) -> Verdict:
    options = VerifyOptions(seed=7, work=1e5, assume=Assumptions(integers_fit=False))
    return verify_aligned(aligned_of(pair, FIT + WRAPPED), options)


@pytest.mark.parametrize("pair", FIT, ids=lambda pair: pair.name)
def test_sums_are_assumed_to_fit(pair: Pair) -> None:
    verdict = verdict_of(pair, FIT + WRAPPED)
    assert verdict.accepted, verdict
    assert "as is assumed" in str(verdict)
    assert not without_assumption(pair).equivalent


@pytest.mark.parametrize("pair", WRAPPED, ids=lambda pair: pair.name)
def test_sums_that_wrap_alike_are_the_same(pair: Pair) -> None:
    verdict = without_assumption(pair)
    assert verdict.accepted, verdict
    assert "as is assumed" not in str(verdict)
