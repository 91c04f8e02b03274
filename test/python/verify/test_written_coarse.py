"""Identities whose right sides lose digits: equal over the real numbers, and not accepted. The
evidence contains a wrong number."""

from __future__ import annotations

import pytest
import torch
from thorough import some_of
from written.pairs import Pair, verdict_of

ROWS, HALVES = "8x64", "8x64:f16"
COARSE = [
    Pair("tanh by a sigmoid", ROWS, torch.tanh, lambda x: 2 * torch.sigmoid(2 * x) - 1),
    Pair("tanh by a sigmoid in f16", HALVES, torch.tanh, lambda x: 2 * torch.sigmoid(2 * x) - 1),
    Pair("sigmoid by a tanh", ROWS, torch.sigmoid, lambda x: 0.5 + 0.5 * torch.tanh(x / 2)),
    Pair(
        "entropy by the logarithm of a sum", ROWS,
        lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
        lambda x: x.logsumexp(-1) - (x.softmax(-1) * x).sum(-1),
    ),
    Pair(
        "a product that is scaled afterwards", "8x64:f16 64x32:f16", lambda x, w: (x * 0.125) @ w,
        lambda x, w: (x @ w) * 0.125,
    ),
    Pair(
        "queries that are scaled", "2x16x64:f16 2x16x64:f16", lambda q, k: (q @ k.mT) * 0.125,
        lambda q, k: (q * 0.125) @ k.mT,
    ),
]  # fmt: skip


@pytest.mark.parametrize("pair", some_of(COARSE, every=2), ids=lambda pair: pair.name)
def test_a_number_shows_what_is_lost(pair: Pair) -> None:
    verdict = verdict_of(pair, COARSE)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert verdict.numerics_hold is False
    (rounding,) = (e for e in verdict.evidence if e.name == "rounding errors")
    assert "which the reference computes as" in rounding.text


def test_the_other_direction_is_right() -> None:
    better = Pair("less rounding", ROWS, lambda x: 2 * torch.sigmoid(2 * x) - 1, torch.tanh)
    assert verdict_of(better, [better]).accepted
