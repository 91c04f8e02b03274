"""A decoder layer with rotary positions, grouped queries and a causal mask, in three ways: as
models write it, with PyTorch's fused functions, and by hand. They are proved equal by parts, in a
fraction of the time for two long programs."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from mirage.verify import VerifyOptions
from mirage.verify.pair import examine
from mirage.verify.pair.readings_of_masks import one_has_least_masks
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.pairs import Pair, aligned_of

B, S, D, H, K, I = 2, 6, 32, 4, 2, 24
WIDTH = D // H
LAYER = (
    f"{B}x{S}x{D} {D} {D}x{D} {K * WIDTH}x{D} {K * WIDTH}x{D} {D}x{D} {D} {I}x{D} {I}x{D} {D}x{I}"
)
Tensor = torch.Tensor


def frequencies() -> Tensor:
    return 1.0 / (10000.0 ** (torch.arange(0, WIDTH, 2).float() / WIDTH))


def norm(x: Tensor, g: Tensor) -> Tensor:
    return g * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def half_turned(x: Tensor) -> Tensor:
    return torch.cat((-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]), -1)


def repeated(x: Tensor) -> Tensor:
    b, k, s, d = x.shape
    return x[:, :, None].expand(b, k, H // k, s, d).reshape(b, H, s, d)


def as_models(x: Tensor, *w: Tensor, first: int = 1) -> Tensor:
    """With a mask of the least number, and tables of the width of heads."""
    before, wq, wk, wv, wo, after, gate, up, down = w
    h = norm(x, before)
    q = F.linear(h, wq).view(B, S, H, WIDTH).transpose(1, 2)
    k, v = (F.linear(h, w).view(B, S, K, WIDTH).transpose(1, 2) for w in (wk, wv))
    angles = (frequencies()[None, :, None] @ torch.arange(S)[None, None, :].float()).mT
    table = torch.cat((angles, angles), -1)[:, None]
    q, k = (t * table.cos() + half_turned(t) * table.sin() for t in (q, k))
    mask = torch.full((S, S), torch.finfo(torch.float32).min).triu(first)
    shares = (q @ repeated(k).mT * WIDTH**-0.5 + mask).softmax(-1, dtype=torch.float32)
    x = x + F.linear((shares @ repeated(v)).transpose(1, 2).reshape(B, S, D), wo)
    h = norm(x, after)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def fused(x: Tensor, *w: Tensor, scale: float | None = None) -> Tensor:
    """With one product for several weights, and tables of the width of half heads."""
    before, wq, wk, wv, wo, after, gate, up, down = w
    qkv = F.linear(F.rms_norm(x, (D,), before, 1e-5), torch.cat([wq, wk, wv]))
    sizes = [D, K * WIDTH, K * WIDTH]
    q, k, v = (t.view(B, S, -1, WIDTH).transpose(1, 2) for t in qkv.split(sizes, -1))
    angles = torch.arange(S).float()[:, None] * frequencies()
    c, s = angles.cos(), angles.sin()

    def turned(t: Tensor) -> Tensor:
        a, b = t.chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    a = F.scaled_dot_product_attention(
        turned(q), turned(k), v, is_causal=True, enable_gqa=True, scale=scale
    )
    x = x + a.transpose(1, 2).flatten(2) @ wo.T
    h = F.linear(F.rms_norm(x, (D,), after, 1e-5), torch.cat([gate, up]))
    a, b = h.chunk(2, -1)
    return x + (a * torch.sigmoid(a) * b) @ down.T


def by_hand(x: Tensor, *w: Tensor, sign: float = -1.0) -> Tensor:
    """With groups of queries as a dimension, a roll, and signs in the tables."""
    before, wq, wk, wv, wo, after, gate, up, down = w
    h = x * before / torch.sqrt((x * x).sum(-1, keepdim=True) / D + 1e-5)
    q = (h @ wq.T).reshape(B, S, K, H // K, WIDTH)
    k, v = ((h @ w.T).reshape(B, S, K, WIDTH) for w in (wk, wv))
    angles = torch.arange(S).float()[:, None] * frequencies()
    c = torch.cat([angles.cos()] * 2, -1)
    s = torch.cat([sign * angles.sin(), angles.sin()], -1)
    q = q * c[:, None, None] + q.roll(WIDTH // 2, -1) * s[:, None, None]
    k = k * c[:, None] + k.roll(WIDTH // 2, -1) * s[:, None]
    scores = torch.einsum("bskgd,btkd->bkgst", q, k) / math.sqrt(WIDTH)
    later = torch.ones(S, S, dtype=torch.bool).triu(1)
    shares = scores.masked_fill(later, -math.inf).softmax(-1)
    x = x + torch.einsum("bkgst,btkd->bskgd", shares, v).reshape(B, S, D) @ wo.T
    h = x * after / torch.sqrt((x * x).sum(-1, keepdim=True) / D + 1e-5)
    a = h @ gate.T
    return x + (a / (1 + torch.exp(-a)) * (h @ up.T)) @ down.T


def keys_for_values(x: Tensor, *w: Tensor) -> Tensor:
    before, wq, wk, wv, *rest = w
    return by_hand(x, before, wq, wv, wk, *rest)


RIGHT = [
    Pair("as models, fused", LAYER, as_models, fused, False),
    Pair("fused, by hand", LAYER, fused, by_hand, False),
    Pair("as models, by hand", LAYER, as_models, by_hand, False),
    Pair("by hand, as models", LAYER, by_hand, as_models, False),
]
WRONG = [
    Pair("another scale", LAYER, as_models, partial(fused, scale=0.36), False),
    Pair("one key more", LAYER, fused, partial(as_models, first=2), False),
    Pair("another turn", LAYER, as_models, partial(by_hand, sign=1.0), False),
    Pair("keys for values", LAYER, fused, keys_for_values, False),
]
OPTIONS = VerifyOptions(seed=7, numerics=False)


@pytest.mark.parametrize("pair", some_of(RIGHT, every=4), ids=lambda pair: pair.name)
def test_layers_are_proved_by_parts(pair: Pair) -> None:
    verdict = verify_aligned(aligned_of(pair, RIGHT), OPTIONS)
    assert verdict.equivalent, verdict
    assert verdict.defined, verdict
    assert any(e.name == "kernel by kernel" and e.holds for e in verdict.evidence), verdict
    assert not any(e.name == "time for proofs" for e in verdict.evidence), verdict


@pytest.mark.parametrize("pair", some_of(WRONG, every=4), ids=lambda pair: pair.name)
def test_wrong_layers_are_refuted(pair: Pair) -> None:
    verdict = verify_aligned(aligned_of(pair, WRONG), OPTIONS)
    assert verdict.witness is not None, verdict


def test_masks_of_one_program_are_read_first() -> None:
    """The time for proofs is not spent on unchanged programs that differ."""
    pair = aligned_of(RIGHT[0], RIGHT)
    assert examine.is_long(pair.reference)
    assert one_has_least_masks(pair.reference, pair.candidate, pair.contents)
    assert not one_has_least_masks(pair.reference, pair.reference, pair.contents)
