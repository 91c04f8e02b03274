"""Fused attention gives zeros in rows that are masked completely, for which a softmax is NaN. A
candidate that gives other values there is the same only if there are no such rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from mirage.verify import Assumptions, Kind, VerifyOptions
from mirage.verify.needed import needed
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.pairs import Pair, aligned_of

LENGTHS = "2x3x6x8 2x3x6x8 2x3x6x8 2:i64"
INF, LEAST = float("inf"), torch.finfo(torch.float32).min
Tensor = torch.Tensor


def kept(n: Tensor) -> Tensor:
    return (torch.arange(6) < n[:, None])[:, None, None]


def fused(q: Tensor, k: Tensor, v: Tensor, n: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=kept(n))


def composed(q: Tensor, k: Tensor, v: Tensor, m: Tensor, number: float) -> Tensor:
    return ((q @ k.mT) * 8**-0.5).masked_fill(~m, number).softmax(-1) @ v


SAME = [
    Pair("minus infinity", LENGTHS, fused, lambda q, k, v, n: composed(q, k, v, kept(n), -INF)),
    Pair("the least number", LENGTHS, fused, lambda q, k, v, n: composed(q, k, v, kept(n), LEAST)),
    Pair(
        "a bias",
        LENGTHS,
        fused,
        lambda q, k, v, n: F.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.zeros(2, 1, 1, 6).masked_fill(~kept(n), -INF)
        ),
    ),
]
OTHERS = [
    Pair("one more", LENGTHS, fused, lambda q, k, v, n: composed(q, k, v, kept(n + 1), -INF)),
    Pair("the others", LENGTHS, fused, lambda q, k, v, n: composed(q, k, v, ~kept(n), -INF)),
]
ALL = SAME + OTHERS
LEFT = VerifyOptions(seed=7, work=1e5, assume=Assumptions(rows_left=True))


@pytest.mark.parametrize("pair", some_of(SAME, every=3), ids=lambda pair: pair.name)
def test_only_empty_rows_differ(pair: Pair) -> None:
    aligned = aligned_of(pair, ALL)
    verdict = verify_aligned(aligned, VerifyOptions(seed=7, work=1e5))
    assert verdict.kind is Kind.UNKNOWN, verdict
    assert any("--assume rows-left" in text for text in needed(verdict)), verdict
    assert verify_aligned(aligned, LEFT).accepted


@pytest.mark.parametrize("pair", OTHERS, ids=lambda pair: pair.name)
def test_other_rows_differ_too(pair: Pair) -> None:
    verdict = verify_aligned(aligned_of(pair, ALL), LEFT)
    assert verdict.kind is Kind.REFUTED, verdict
