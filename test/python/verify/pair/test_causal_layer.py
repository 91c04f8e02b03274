"""A layer with a causal mask, written by hand and with PyTorch's fused functions, is proved by
parts: each part computes the mask that it reads, and constants that compile to the same numbers are
equal."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from mirage.verify import Verdict
from written.pairs import Pair, verdict_of

LAYER = "2x6x16 16 16x48 16x16 16 16x24 24x16"
Tensor = torch.Tensor


def fused(
    x: Tensor, g: Tensor, w: Tensor, o: Tensor, h: Tensor, up: Tensor, down: Tensor
) -> Tensor:
    qkv = (F.rms_norm(x, (16,), g, 1e-6) @ w).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4)
    a = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
    x = x + a.transpose(1, 2).reshape(2, 6, 16) @ o
    return x + F.silu(F.rms_norm(x, (16,), h, 1e-6) @ up) @ down


def norm(x: Tensor, g: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, True) + 1e-6).rsqrt() * g


def by_hand(
    x: Tensor,
    g: Tensor,
    w: Tensor,
    o: Tensor,
    h: Tensor,
    up: Tensor,
    down: Tensor,
    first: int = 1,
) -> Tensor:
    q, k, v = (t.reshape(2, 6, 2, 8).transpose(1, 2) for t in (norm(x, g) @ w).split(16, -1))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(8)
    later = torch.triu(torch.ones(6, 6, dtype=torch.bool), first)
    shares = scores.masked_fill(later, -math.inf).softmax(-1)
    y = torch.einsum("bhqk,bhkd->bqhd", shares, v).flatten(2) @ o + x
    z = norm(y, h) @ up
    return z * z.sigmoid() @ down + y


ALL = [
    Pair("by hand", LAYER, fused, by_hand),
    Pair("one key more", LAYER, fused, lambda *xs: by_hand(*xs, first=2)),
]


def shown_by_parts(verdict: Verdict) -> bool:
    return any(e.name == "kernel by kernel" and e.holds for e in verdict.evidence)


def test_a_layer_with_a_causal_mask_is_proved_by_parts() -> None:
    verdict = verdict_of(ALL[0], ALL)
    assert verdict.accepted, verdict
    assert shown_by_parts(verdict), verdict


def test_a_key_that_is_not_masked_is_seen() -> None:
    verdict = verdict_of(ALL[1], ALL)
    assert not verdict.equivalent, verdict
