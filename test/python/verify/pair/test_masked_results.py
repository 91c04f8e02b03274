"""Results that a mask sets to minus infinity are values, from which others differ."""

from __future__ import annotations

import pytest
import torch
from mirage.verify import Kind, VerifyOptions
from mirage.verify.verifier import verify_aligned
from written.pairs import Pair, aligned_of

OPERANDS = "6x8 8x10 6x10:b"
INF = float("inf")
Tensor = torch.Tensor


def filled(x: Tensor, w: Tensor, mask: Tensor) -> Tensor:
    return (x @ w).masked_fill(mask, -INF)


SAME = [
    Pair("chosen", OPERANDS, filled, lambda x, w, m: torch.where(m, -INF, x @ w)),
    Pair("added", OPERANDS, filled, lambda x, w, m: x @ w + torch.where(m, -INF, 0.0)),
]
OTHERS = [
    Pair("the others", OPERANDS, filled, lambda x, w, m: filled(x, w, ~m)),
    Pair("shifted", OPERANDS, filled, lambda x, w, m: filled(x, w, m.roll(1, 1))),
    Pair("scaled", OPERANDS, filled, lambda x, w, m: filled(1.001 * x, w, m)),
    Pair("infinity", OPERANDS, filled, lambda x, w, m: (x @ w).masked_fill(m, INF)),
    Pair("a large number", OPERANDS, filled, lambda x, w, m: (x @ w).masked_fill(m, -1e30)),
]
ALL = SAME + OTHERS


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: pair.name)
def test_other_ways_to_fill_are_equal(pair: Pair) -> None:
    assert verify_aligned(aligned_of(pair, ALL), VerifyOptions(seed=7, work=1e5)).accepted


@pytest.mark.parametrize("pair", OTHERS, ids=lambda pair: pair.name)
def test_other_values_are_refuted(pair: Pair) -> None:
    verdict = verify_aligned(aligned_of(pair, ALL), VerifyOptions(seed=7, work=1e5))
    assert verdict.kind is Kind.REFUTED, verdict
    assert verdict.witness is not None
