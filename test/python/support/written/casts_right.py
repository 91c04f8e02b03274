"""Programs with casts that may be left out or moved, or that are kept."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.casts_wrong import BF16, BRAIN, HALF, ONE, TWO, kahan, split, to_grid
from written.pairs import Pair


def rms(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


CASTS_RIGHT: list[Pair] = [
    Pair(
        "kept, doubled after",
        ONE,
        lambda x: (x.half().float()) * 2,
        lambda x: x.half().float() + x.half().float(),
    ),
    Pair(
        "cast of a cast", ONE, lambda x: x.half().float().half().float(), lambda x: x.half().float()
    ),
    Pair(
        "a grid that is kept",
        ONE,
        lambda x: to_grid(x, 0.0625, 12582912.0) * 2.0,
        lambda x: 2.0 * to_grid(x, 0.0625, 12582912.0),
    ),
    Pair(
        "a correction that is kept",
        "8x16",
        lambda x: kahan(x)[1] * 2,
        lambda x: kahan(x)[1] + kahan(x)[1],
    ),
    Pair("wider and back", HALF, lambda x: x.float().half() * 2, lambda x: x + x),
    Pair(
        "wider within",
        HALF,
        lambda x: torch.exp(x) * 0.5,
        lambda x: (torch.exp(x.float()) * 0.5).half(),
    ),
    Pair(
        "norm down before its gain",
        "8x64:f16 64:f16",
        lambda x, w: rms(x.float(), 1.0).half() * w,
        lambda x, w: rms(x.float(), w.float()).half(),
    ),
    Pair(
        "norm down before its gain, in bf16",
        "8x64:bf16 64:bf16",
        lambda x, w: rms(x.float(), 1.0).to(BF16) * w,
        lambda x, w: rms(x.float(), w.float()).to(BF16),
    ),
    Pair(
        "softmax down before the product",
        "8x64:f16 64x16:f16",
        lambda x, v: x.float().softmax(-1).half() @ v,
        lambda x, v: (x.float().softmax(-1) @ v.float()).half(),
    ),
    Pair("sum of f16 in f32", HALF, lambda x: x.sum(-1), lambda x: x.float().sum(-1).half()),
    Pair(
        "sum of bf16 in halves",
        BRAIN,
        lambda x: x.sum(-1),
        lambda x: (x[:, :32].float().sum(-1) + x[:, 32:].float().sum(-1)).to(BF16),
    ),
    Pair(
        "gate in f32",
        "8x64:f16 8x64:f16",
        lambda x, y: F.silu(x) * y,
        lambda x, y: (F.silu(x.float()) * y.float()).half(),
    ),
    Pair(
        "layer norm in f32",
        HALF,
        lambda x: F.layer_norm(x, (64,)),
        lambda x: F.layer_norm(x.float(), (64,)).half(),
    ),
    Pair(
        "residual and norm",
        "8x64:bf16 8x64:bf16 64:bf16",
        lambda x, y, w: rms((x + y).float(), 1.0).to(BF16) * w,
        lambda x, y, w: rms((x + y).float(), w.float()).to(BF16),
    ),
    Pair(
        "rotated in f32",
        "8x64:f16 8x64:f16",
        lambda x, c: x * c + torch.cat([-x[:, 32:], x[:, :32]], 1) * c,
        lambda x, c: (
            (x.float() + torch.cat([-x[:, 32:], x[:, :32]], 1).float()) * c.float()
        ).half(),
    ),
    Pair(
        "halves of a split, products apart",
        "8x64 64x16",
        lambda x, w: split(x)[0] @ w + split(x)[1] @ w,
        lambda x, w: (split(x)[0] + split(x)[1]) @ w,
    ),
    Pair(
        "scores scaled in f32",
        "8x64:f16 8x64:f16",
        lambda q, k: ((q @ k.t()) * 0.125).softmax(-1),
        lambda q, k: (q.float() @ k.float().t() * 0.125).softmax(-1).half(),
    ),
    Pair(
        "three in f16",
        "8x64:f16 8x64:f16 8x64:f16",
        lambda x, y, z: x + y + z,
        lambda x, y, z: (x.float() + y.float() + z.float()).half(),
    ),
    Pair("gelu in f32", BRAIN, lambda x: F.gelu(x), lambda x: F.gelu(x.float()).to(BF16)),
    Pair(
        "cast before rows are moved",
        TWO,
        lambda x, y: torch.cat([x, y]).half().float(),
        lambda x, y: torch.cat([x.half(), y.half()]).float(),
    ),
    Pair(
        "cast, then relu",
        ONE,
        lambda x: F.relu(x.half()).float(),
        lambda x: F.relu(x).half().float(),
    ),
    Pair(
        "cast, then maximum",
        ONE,
        lambda x: x.half().amax(-1).float(),
        lambda x: x.amax(-1).half().float(),
    ),
    Pair(
        "cast, then negated", ONE, lambda x: -(x.to(BF16).float()), lambda x: (-x).to(BF16).float()
    ),
    Pair(
        "cast, times a power of two",
        ONE,
        lambda x: x.half().float() * 4.0,
        lambda x: (x * 4.0).half().float(),
    ),
    Pair(
        "too large chosen away, kept",
        ONE,
        lambda x: torch.where(x.half().float().isinf(), torch.zeros(8, 64), x * 2),
        lambda x: torch.where(x.half().float().isinf(), torch.zeros(8, 64), x + x),
    ),
    Pair(
        "distance of rows in f16",
        HALF,
        lambda x: (x - x.roll(1, 0)).square().sum(-1),
        lambda x: (x.float() - x.roll(1, 0).float()).square().sum(-1).half(),
    ),
    Pair(
        "mean and variance out of f16",
        HALF,
        lambda x: (x.mean(-1), x.var(-1)),
        lambda x: (x.float().mean(-1).half(), x.float().var(-1).half()),
    ),
]
