"""Attention that gives zeros in completely masked rows, written in several ways."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from written.pairs import Pair

QKV, ROWS = "2x5x4 2x5x4 2x5x4 5x5:b", "5x5 5x5:b"


def scores(q: Tensor, k: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT * 0.5).masked_fill(~m, -math.inf)


def shares(x: Tensor, m: Tensor) -> Tensor:
    return x.masked_fill(~m, -math.inf).softmax(-1)


def by_largest(x: Tensor, m: Tensor, fill: float = 0.0) -> Tensor:
    """Shares, and another number in rows whose largest score is minus infinity."""
    largest = x.masked_fill(~m, -math.inf).amax(-1, keepdim=True)
    return shares(x, m).masked_fill(largest == -math.inf, fill)


def fused(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=m)


def guarded(q: Tensor, k: Tensor, v: Tensor, m: Tensor, *, seen: bool = True) -> Tensor:
    """Division by one if the sum is zero; without ``seen``, masked values count."""
    masked = scores(q, k, m)
    most = masked.amax(-1, keepdim=True)
    most = torch.where(most == -math.inf, 0.0, most)
    total = torch.exp(masked - most).sum(-1, keepdim=True)
    weights = torch.exp((masked if seen else q @ k.mT * 0.5) - most)
    return (weights @ v) / torch.where(total == 0, 1.0, total)


ZERO_ROWS_RIGHT = [
    Pair("divided by one where the sum is zero", QKV, fused, guarded),
    Pair("kept before the product", QKV, fused, lambda q, k, v, m: torch.where(
        m.any(-1, keepdim=True), scores(q, k, m).softmax(-1), 0.0) @ v),
    Pair("no largest score", ROWS,
         lambda x, m: torch.where(m.any(-1, keepdim=True), shares(x, m), 0.0), by_largest),
    Pair("no number is zero", QKV, fused,
         lambda q, k, v, m: torch.nan_to_num(scores(q, k, m).softmax(-1), nan=0.0) @ v, False),
]  # fmt: skip

ZERO_ROWS_WRONG = [
    Pair("any of a column", QKV, fused, lambda q, k, v, m: torch.where(
        m.any(0)[:, None], scores(q, k, m).softmax(-1), 0.0) @ v),
    Pair("ones in empty rows", QKV, fused, lambda q, k, v, m: torch.where(
        m.any(-1, keepdim=True), scores(q, k, m).softmax(-1), 1.0) @ v),
    Pair("ones where there is no largest score", ROWS,
         lambda x, m: torch.where(m.any(-1, keepdim=True), shares(x, m), 0.0),
         lambda x, m: by_largest(x, m, 1.0)),
    Pair("masked values count", QKV, fused, lambda *x: guarded(*x, seen=False)),
    Pair("any of another mask", ROWS, lambda x, m: torch.nan_to_num(shares(x, m), nan=0.0),
         lambda x, m: torch.where(m.mT.any(-1, keepdim=True), shares(x, m), 0.0)),
    Pair("zero where another row is empty", ROWS,
         lambda x, m: torch.nan_to_num(shares(x, m), nan=0.0) @ x,
         lambda x, m: torch.nan_to_num(shares(x, m) @ x, nan=0.0).flip(0).mT.mT),
]  # fmt: skip
