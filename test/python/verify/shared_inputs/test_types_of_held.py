"""Tensors with the same elements in two types, as truth values and as ones and zeros, are one
tensor."""

from __future__ import annotations

import pytest
import torch
from mirage.verify import Kind
from written.pairs import Pair, verdict_of

KEPT = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0]).bool()
X = "6x8"
SAME = [
    Pair("truth values and ones", X, lambda x: x * KEPT, lambda x: x * KEPT.float()),
    Pair("ones and truth values", X, lambda x: x * KEPT.float(), lambda x: x * KEPT),
    Pair(
        "a choice and factors",
        X,
        lambda x: torch.where(KEPT, x, 0.0).sum(-1),
        lambda x: x @ KEPT.float(),
    ),
    Pair(
        "whole numbers and fractions",
        X,
        lambda x: x + torch.tensor([3, 1, 4, 1, 5, 9, 2, 6]),
        lambda x: torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]) + x,
    ),
]
OTHER = [
    Pair("other truth values", X, lambda x: x * KEPT, lambda x: x * (~KEPT).float()),
    Pair(
        "as a choice and as summands",
        X,
        lambda x: torch.where(KEPT, x, 0.0),
        lambda x: x + KEPT.float(),
    ),
]


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: pair.name)
def test_equal_elements_of_two_types(pair: Pair) -> None:
    verdict = verdict_of(pair, [pair])
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", OTHER, ids=lambda pair: pair.name)
def test_other_elements(pair: Pair) -> None:
    assert verdict_of(pair, [pair]).kind is Kind.REFUTED
