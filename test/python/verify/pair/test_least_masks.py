"""Masks that add a large negative number are masks of minus infinity, if only exponentials depend
on them, and the reference is NaN in rows that are masked completely, or has no such rows."""

from __future__ import annotations

import pytest
import torch
from mirage.verify import Kind
from mirage.verify.pair.least_masks import ALIKE, READ
from thorough import some_of
from written.pairs import Pair, verdict_of

LEAST, INF = torch.finfo(torch.float32).min, float("inf")
ABOVE = torch.ones(8, 8, dtype=torch.bool).triu(1)
X, MASKED, SCALED, HALF = "8x8", "8x8 8x8:b", "8x8 8x1", "8x8:f16"
TWO = "8x8 8x8:b 8x8:b"


def with_infinity(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(m, -INF)


def with_least(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(m, LEAST)


def shares(x: torch.Tensor) -> torch.Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


SAME = [
    Pair(
        "a triangle",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: with_least(x, ABOVE).softmax(-1),
    ),
    Pair(
        "any mask",
        MASKED,
        lambda x, m: with_infinity(x, m).softmax(-1),
        lambda x, m: torch.where(m, LEAST, x).softmax(-1),
    ),
    Pair(
        "written out",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: shares(with_least(x, ABOVE)),
    ),
    Pair(
        "a billion",
        MASKED,
        lambda x, m: with_infinity(x, m).softmax(-1),
        lambda x, m: x.masked_fill(m, -1e9).softmax(-1),
    ),
    Pair(
        "a triangle of large numbers in the reference",
        X,
        lambda x: x.masked_fill(ABOVE, -1e9).softmax(-1),
        lambda x: with_infinity(x, ABOVE).softmax(-1),
    ),
    Pair(
        "a tensor of large numbers",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: (x + torch.full((8, 8), LEAST).triu(1)).softmax(-1),
    ),
    Pair(
        "tensors of large numbers in both",
        X,
        lambda x: (x + (1.0 - torch.ones(8, 8).tril()) * -1e9).softmax(-1),
        lambda x: (x + torch.full((8, 8), LEAST).triu(1)).softmax(-1),
    ),
    Pair(
        "any mask, subtracted",
        MASKED,
        lambda x, m: with_infinity(x, m).softmax(-1),
        lambda x, m: (x - 1e9 * m).softmax(-1),
    ),
    Pair(
        "a triangle, subtracted",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: (x - 1e10 * ABOVE.float()).softmax(-1),
    ),
    Pair(
        "a triangle that the reference subtracts",
        X,
        lambda x: (x - 1e9 * torch.ones(8, 8).triu(1)).softmax(-1),
        lambda x: with_infinity(x, ABOVE).softmax(-1),
    ),
    Pair(
        "the least number of f16",
        HALF,
        lambda x: x.masked_fill(ABOVE, torch.finfo(torch.float16).min).softmax(-1),
        lambda x: with_infinity(x, ABOVE).softmax(-1),
    ),
]
ALIKE_ONES = [
    Pair(
        "any mask, of two numbers",
        MASKED,
        lambda x, m: with_least(x, m).softmax(-1),
        lambda x, m: x.masked_fill(m, -1e9).softmax(-1),
    ),
    Pair(
        "any mask, added",
        MASKED,
        lambda x, m: (x + (1.0 - m.float()) * -1e9).softmax(-1),
        lambda x, m: (x + (~m) * -1e10).softmax(-1),
    ),
    Pair(
        "any mask, compared with zero",
        MASKED,
        lambda x, m: x.masked_fill(m == 0, -1e9).softmax(-1),
        lambda x, m: torch.where(m, x, -1e30).softmax(-1),
    ),
]
ALIKE_ONES += [
    Pair(
        "any mask, subtracted and added",
        MASKED,
        lambda x, m: (x - 1e9 * (1 - m.float())).softmax(-1),
        lambda x, m: (x + (~m) * LEAST).softmax(-1),
    ),
    Pair(
        "any mask, less one",
        MASKED,
        lambda x, m: (x + (m.float() - 1) * 1e9).softmax(-1),
        lambda x, m: (x + (1 - m.float()) * -1e10).softmax(-1),
    ),
]
OTHERS = [
    Pair(
        "scores that are subtracted from a mask",
        MASKED,
        lambda x, m: with_infinity(x, m).softmax(-1),
        lambda x, m: (1e9 * m - x).softmax(-1),
    ),
    Pair(
        "a mask less one that is subtracted",
        MASKED,
        lambda x, m: (x + (m.float() - 1) * 1e9).softmax(-1),
        lambda x, m: (x - (m.float() - 1) * 1e9).softmax(-1),
    ),
    Pair(
        "a triangle that is subtracted and used otherwise",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: (lambda h: (x - h).softmax(-1) + h * 1e-9)(1e9 * ABOVE.float()),
    ),
    Pair(
        "a reference with numbers in rows of which nothing is left",
        MASKED,
        lambda x, m: with_least(x, m).softmax(-1),
        lambda x, m: with_infinity(x, m).softmax(-1),
    ),
    Pair(
        "a billion in rows of which nothing is left",
        MASKED,
        lambda x, m: x.masked_fill(m, -1e9).softmax(-1),
        lambda x, m: with_infinity(x, m).softmax(-1),
    ),
    Pair(
        "triangles of which rows are empty",
        X,
        lambda x: x.masked_fill(ABOVE.T | ~ABOVE, -1e9).softmax(-1),
        lambda x: with_infinity(x, ABOVE.T | ~ABOVE).softmax(-1),
    ),
    Pair(
        "kept scores in rows of which nothing is left",
        MASKED,
        lambda x, m: (x + m * -1e9).softmax(-1),
        lambda x, m: x.masked_fill(m, -1e9).softmax(-1),
    ),
    Pair(
        "another mask of large numbers",
        MASKED,
        lambda x, m: x.masked_fill(m, -1e9).softmax(-1),
        lambda x, m: x.masked_fill(m.flip(-1), -1e10).softmax(-1),
    ),
    Pair(
        "two masks of two numbers",
        TWO,
        lambda x, m, n: (x + m * -1e9 + n * -1e10).softmax(-1),
        lambda x, m, n: (x + m * -1e10 + n * -1e9).softmax(-1),
    ),
    Pair(
        "two masks, added and joined",
        TWO,
        lambda x, m, n: (x + m * -1e9 + n * -1e9).softmax(-1),
        lambda x, m, n: (x + (m | n) * -1e9).softmax(-1),
    ),
    Pair(
        "a million",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: x.masked_fill(ABOVE, -1e6).softmax(-1),
    ),
    Pair(
        "zeros in rows of which nothing is left",
        MASKED,
        lambda x, m: torch.where(m.all(-1, keepdim=True), 0.0, with_infinity(x, m).softmax(-1)),
        lambda x, m: with_least(x, m).softmax(-1),
    ),
    Pair(
        "the masked values themselves",
        X,
        lambda x: with_infinity(x, ABOVE),
        lambda x: with_least(x, ABOVE),
    ),
    Pair(
        "a factor that may be small",
        SCALED,
        lambda x, s: (with_infinity(x, ABOVE) * s.exp()).softmax(-1),
        lambda x, s: (with_least(x, ABOVE) * s.exp()).softmax(-1),
    ),
    Pair(
        "numbers that cancel",
        X,
        lambda x: x.softmax(-1),
        lambda x: (x + ABOVE * LEAST - ABOVE * LEAST).softmax(-1),
    ),
    Pair(
        "another triangle",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: with_least(x, ABOVE.T).softmax(-1),
    ),
    Pair(
        "a number that scores may have",
        X,
        lambda x: with_infinity(x, ABOVE).softmax(-1),
        lambda x: x.masked_fill(ABOVE, -1e4).softmax(-1),
    ),
]
LARGE_SCORES = [
    Pair(
        "a reference whose scores are far below a billion",
        X,
        lambda x: (x * 1e10).masked_fill(ABOVE, -1e9).softmax(-1),
        lambda x: with_infinity(x * 1e10, ABOVE).softmax(-1),
    ),
    Pair(
        "scores that may be far below a billion",
        MASKED,
        lambda x, m: with_infinity(x * 1e8, m).softmax(-1),
        lambda x, m: (x * 1e8).masked_fill(m, -1e9).softmax(-1),
    ),
    Pair(
        "exponentials as scores",
        MASKED,
        lambda x, m: with_infinity(-(x * 20).exp(), m).softmax(-1),
        lambda x, m: (-(x * 20).exp()).masked_fill(m, -1e9).softmax(-1),
    ),
    Pair(
        "squares as scores",
        MASKED,
        lambda x, m: with_infinity(-(x * 1e4).square(), m).softmax(-1),
        lambda x, m: (-(x * 1e4).square()).masked_fill(m, -1e9).softmax(-1),
    ),
    Pair(
        "scores of a half type that are not small",
        "8x8:f16 8x8:b",
        lambda x, m: with_infinity(x * 8, m).softmax(-1),
        lambda x, m: (x * 8).masked_fill(m, -33000.0).softmax(-1),
    ),
]
ALL = SAME + ALIKE_ONES + OTHERS + LARGE_SCORES


@pytest.mark.parametrize("pair", some_of(SAME, every=3), ids=lambda pair: pair.name)
def test_the_least_number_is_read_as_minus_infinity(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict
    assert verdict.kind is Kind.PROVED
    assert READ in [e.text for e in verdict.evidence]


@pytest.mark.parametrize("pair", some_of(ALIKE_ONES, every=2), ids=lambda pair: pair.name)
def test_two_large_numbers_are_read_as_one(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict
    assert ALIKE in [e.text for e in verdict.evidence]


@pytest.mark.parametrize("pair", some_of(OTHERS, every=3), ids=lambda pair: pair.name)
def test_where_the_number_matters_nothing_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict
    assert not {READ, ALIKE} & {e.text for e in verdict.evidence}


@pytest.mark.parametrize("pair", some_of(LARGE_SCORES, every=2), ids=lambda pair: pair.name)
def test_scores_as_large_as_the_number_are_compared_as_they_are(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict


def test_scores_that_are_usually_larger_refute() -> None:
    assert verdict_of(LARGE_SCORES[0], ALL).kind is Kind.REFUTED
