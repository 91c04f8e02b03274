"""Attention whose scores are rounded to half precision, and attention whose scores are not: a
kernel may keep more digits than the program, but not fewer. PyTorch's fused attention keeps them in
f32."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from thorough import some_of
from torch import Tensor
from written.pairs import Pair, Program, verdict_of

INPUTS = {dtype: f"2x16x64:{dtype} 2x16x64:{dtype} 2x16x64:{dtype}" for dtype in ("f16", "bf16")}
fused = F.scaled_dot_product_attention


def masked(scores: Tensor) -> Tensor:
    return scores.masked_fill(~torch.ones(16, 16, dtype=torch.bool).tril(), -math.inf)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return fused(q, k, v, is_causal=True)


def written(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax((q @ k.mT) * 0.125, -1) @ v


def written_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(masked((q @ k.mT) * 0.125), -1) @ v


def widened_later(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax((q @ k.mT).float() * 0.125, -1).to(v.dtype) @ v


def wide(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax((q.float() @ k.float().mT) * 0.125, -1).to(v.dtype) @ v


def wide_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(masked((q.float() @ k.float().mT) * 0.125), -1).to(v.dtype) @ v


def all_wide(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.softmax((q.float() @ k.float().mT) * 0.125, -1)
    return (weights @ v.float()).to(v.dtype)


KEEPS: tuple[tuple[Program, Program], ...] = (
    (written, fused), (written_causal, causal), (widened_later, fused), (wide, fused),
    (fused, wide), (fused, all_wide), (causal, wide_causal),
)  # fmt: skip
"""The second program of each pair keeps as many digits as the first one, or more."""
LOSES: tuple[tuple[Program, Program], ...] = (
    (fused, written),
    (causal, written_causal),
    (fused, widened_later),
    (wide, written),
)


def pairs(of: Sequence[tuple[Program, Program]]) -> list[Pair]:
    return [
        Pair(f"{first.__name__} {second.__name__} {dtype}", each, first, second)
        for first, second in of
        for dtype, each in INPUTS.items()
    ]


@pytest.mark.parametrize("pair", some_of(pairs(KEEPS), every=8), ids=lambda pair: pair.name)
def test_more_digits_may_be_kept(pair: Pair) -> None:
    verdict = verdict_of(pair, [pair])
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", some_of(pairs(LOSES), every=3), ids=lambda pair: pair.name)
def test_scores_may_not_be_rounded_where_the_program_keeps_them(pair: Pair) -> None:
    verdict = verdict_of(pair, [pair])
    assert verdict.equivalent, verdict
    assert not verdict.accepted, verdict
