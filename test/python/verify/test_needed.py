"""What an unknown verdict says that it needs."""

from __future__ import annotations

import pytest
from mirage.verify.needed import needed
from mirage.verify.verdict import Evidence, Kind, Verdict

SAID = {
    "more than 2400000 products of terms": "within 2400000 products",
    "products of sums of 700 and 90 terms": "sums of 700 and 90 terms",
    "3e+09 elements to compute, limit 4e+06; sizes 240 and 7 meet": "raise VerifyOptions.work",
    "the small programs have 812345 elements, limit 400000": "at most 400000 elements",
    "12 indices of one axis interact, limit 8": "at most 8 indices",
    "sizes 48 and 32 meet": "48 and 32 cut one dimension",
    "digits of radix 5 and 16 meet": "5 and 16 cut one dimension",
    "a slice of a dimension of 96 starts at a multiple of 3": "dimension of 96",
    "900 tiles, limit 512": "at most 512 tiles",
    "no result within 2 s": "more time than 2 s",
    "the time was up before anything was decided": "--budget",
    "the normal forms differ": "an identity that the normal forms do not know",
    "an output is undefined": "a divisor is 0",
    "expected the calls ['aten.sort'], got []": "['aten.sort'], not []",
    "something that has no row": "a test: something that has no row",
}


def verdict(*evidence: Evidence, kind: Kind = Kind.UNKNOWN) -> Verdict:
    return Verdict(kind, None, evidence, 0)


@pytest.mark.parametrize("text", SAID)
def test_each_reason_says_what_to_try(text: str) -> None:
    wants = needed(verdict(Evidence("a test", None, text)))
    assert any(SAID[text] in want for want in wants), wants
    assert needed(verdict(Evidence("a test", None, text), kind=Kind.PROVED)) == ()


def test_pieces_are_named() -> None:
    why = [{"name": "proof", "holds": None, "text": "the normal forms differ"}]
    pieces = [
        {"computes": ["q"], "verdict": "proved", "rests_on": []},
        {"computes": ["scores"], "verdict": "unknown", "rests_on": why},
    ]
    text = "1 of 2 pieces are not shown"
    (want,) = needed(verdict(Evidence("kernel by kernel", None, text, {"pieces": pieces})))
    assert want.startswith("for what computes scores: an identity")


def test_there_is_always_something() -> None:
    assert needed(verdict())
    assert needed(verdict(Evidence("finite field at the real sizes", False, "1 draws")))
