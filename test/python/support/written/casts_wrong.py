"""Programs that depend on a rounding that one of the two loses: it is left out, moved, done in
another type, or hidden by a coarser rounding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

ONE, TWO, HALF, BRAIN = "8x64", "8x64 8x64", "8x64:f16", "8x64:bf16"
BF16 = torch.bfloat16


def to_grid(x, step, large):
    """Fake quantisation: a large number leaves few digits."""
    return ((x / step + large) - large) * step


def kahan(x):
    """Return the sum over the columns, and its rounding error."""
    s, c = x[:, 0], torch.zeros(x.shape[0])
    for i in range(1, x.shape[1]):
        y = x[:, i] - c
        t = s + y
        c = (t - s) - y
        s = t
    return s, c


def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def split(x, dtype=BF16):
    high = x.to(dtype).float()
    return high, (x - high).to(dtype).float()


CASTS_WRONG: list[Pair] = [
    # fake quantisation by a large number, at the steps of 8 bits
    Pair("a grid of a sixteenth", ONE, lambda x: to_grid(x, 0.0625, 12582912.0), lambda x: x * 1.0),
    Pair("a grid of 8 bits", ONE, lambda x: to_grid(x, 6 / 127, 12582912.0), lambda x: x * 1.0),
    Pair(
        "a grid of 8 bits before a product",
        "8x64 64x16",
        lambda x, w: to_grid(x, 6 / 127, 12582912.0) @ w,
        lambda x, w: x @ w,
    ),
    Pair("a grid of 8 bits in f16", HALF, lambda x: to_grid(x, 0.0625, 1536.0), lambda x: x * 1.0),
    Pair(
        "a grid of 8 bits in each row",
        ONE,
        lambda x: to_grid(x, x.abs().amax(-1, keepdim=True) / 127, 12582912.0),
        lambda x: x * 1.0,
    ),
    Pair(
        "a grid, joined to much else",
        ONE,
        lambda x: torch.cat([to_grid(x[:1], 0.5, 12582912.0), x[1:] * 2.0]),
        lambda x: torch.cat([x[:1] * 1.0, x[1:] * 2.0]),
    ),
    Pair(
        "a grid of one column",
        ONE,
        lambda x: torch.cat([to_grid(x[:, :1], 0.5, 12582912.0), x[:, 1:] * 2.0], 1),
        lambda x: torch.cat([x[:, :1] * 1.0, x[:, 1:] * 2.0], 1),
    ),
    Pair(
        "a grid by a cast and a large number",
        HALF,
        lambda x: ((x.float() * 16).half() + 1536 - 1536) / 16,
        lambda x: x * 1.0,
    ),
    # residuals of casts
    Pair(
        "residual of a cast to bf16, scaled",
        ONE,
        lambda x: (x - x.to(BF16).float()) * 256,
        lambda x: x * 0.0,
    ),
    Pair(
        "residual beside large numbers",
        TWO,
        lambda x, y: torch.cat([x[:1] - x[:1].half().float(), 1e6 * torch.exp(y[1:])]),
        lambda x, y: torch.cat([x[:1] * 0.0, 1e6 * torch.exp(y[1:])]),
    ),
    Pair(
        "residual in a column beside large numbers",
        TWO,
        lambda x, y: torch.cat([x[:, :1] - x[:, :1].half().float(), 1e6 * torch.exp(y[:, 1:])], 1),
        lambda x, y: torch.cat([x[:, :1] * 0.0, 1e6 * torch.exp(y[:, 1:])], 1),
    ),
    Pair(
        "residual in turn with large numbers",
        TWO,
        lambda x, y: torch.stack([x - x.half().float(), 1e6 * torch.exp(y)], -1).flatten(1),
        lambda x, y: torch.stack([x * 0.0, 1e6 * torch.exp(y)], -1).flatten(1),
    ),
    Pair(
        "residual of a cast, half of it",
        ONE,
        lambda x: x - x.half().float(),
        lambda x: 0.5 * (x - x.half().float()),
    ),
    Pair(
        "residual of the other type",
        ONE,
        lambda x: x - x.half().float(),
        lambda x: x - x.to(BF16).float(),
    ),
    Pair("residual of a residual", ONE, lambda x: split(x)[1], lambda x: x * 0.0),
    Pair("residual of bf16 in f16", HALF, lambda x: x - x.to(BF16).half(), lambda x: x * 0.0),
    Pair(
        "magnitude of a residual",
        ONE,
        lambda x: (x - x.half().float()).abs().sum(-1),
        lambda x: x.sum(-1) * 0.0,
    ),
    Pair(
        "residual of a sum",
        ONE,
        lambda x: x.sum(-1) - x.sum(-1).half().float(),
        lambda x: x.sum(-1) * 0.0,
    ),
    Pair(
        "residual of a product",
        "8x64 64x16",
        lambda x, w: x @ w - (x @ w).half().float(),
        lambda x, w: (x @ w) * 0.0,
    ),
    Pair(
        "residual of a softmax",
        ONE,
        lambda x: (x.softmax(-1) - x.softmax(-1).half().float()) * 4096,
        lambda x: x * 0.0,
    ),
    # error that is carried along
    Pair(
        "error that is carried on",
        TWO,
        lambda x, e: ((x + e).to(BF16), x + e - (x + e).to(BF16).float()),
        lambda x, e: ((x + e).to(BF16), (x + e) * 0.0),
    ),
    Pair("Kahan's correction", "8x16", lambda x: kahan(x)[1], lambda x: x.sum(-1) * 0.0),
    Pair(
        "what a sum of two has lost",
        TWO,
        lambda x, y: two_sum(x, y)[1],
        lambda x, y: x * 0.0 + y * 0.0,
    ),
    Pair(
        "what a sum in f16 has lost",
        "8x64:f16 8x64:f16",
        lambda x, y: two_sum(x, y)[1],
        lambda x, y: x * 0.0 + y * 0.0,
    ),
    # types left out of a chain
    Pair("through bf16", ONE, lambda x: x.to(BF16).float(), lambda x: x * 1.0),
    Pair(
        "through f16 and bf16", ONE, lambda x: x.half().to(BF16).float(), lambda x: x.half().float()
    ),
    Pair("bf16 for f16", ONE, lambda x: x.half().float(), lambda x: x.to(BF16).float()),
    Pair("f16 for bf16", ONE, lambda x: x.to(BF16).float(), lambda x: x.half().float()),
    Pair("twice a cast of half", ONE, lambda x: (x * 0.3).half().float() / 0.3, lambda x: x * 1.0),
    Pair("through bf16, from f16 to f16", HALF, lambda x: x.to(BF16).half(), lambda x: x * 1.0),
    Pair("through bf16, from f16 to f32", HALF, lambda x: x.to(BF16).float(), lambda x: x.float()),
    Pair("one half of a split", ONE, lambda x: split(x)[0] + split(x)[1], lambda x: split(x)[0]),
    Pair(
        "product of one half of a split",
        "8x64 64x16",
        lambda x, w: split(x)[0] @ w + split(x)[1] @ w,
        lambda x, w: split(x)[0] @ w,
    ),
    # casts around sums and products
    Pair(
        "products of casts in bf16",
        "8x64 64x16",
        lambda x, w: x.to(BF16).float() @ w.to(BF16).float(),
        lambda x, w: x @ w,
    ),
    Pair("cast before a sum", ONE, lambda x: x.to(BF16).float().sum(-1), lambda x: x.sum(-1)),
    Pair(
        "cast after a sum for before",
        ONE,
        lambda x: x.to(BF16).float().sum(-1),
        lambda x: x.sum(-1).to(BF16).float(),
    ),
    Pair(
        "partial sums in bf16",
        ONE,
        lambda x: x.sum(-1),
        lambda x: (x[:, :32].sum(-1).to(BF16) + x[:, 32:].sum(-1).to(BF16)).float(),
    ),
    Pair("maximum of casts", ONE, lambda x: x.to(BF16).amax(-1).float(), lambda x: x.amax(-1)),
    Pair(
        "which is largest of casts",
        ONE,
        lambda x: x.to(BF16).float().argmax(-1),
        lambda x: x.argmax(-1),
    ),
    Pair(
        "order of casts",
        TWO,
        lambda x, y: (x.to(BF16) > y.to(BF16)).float(),
        lambda x, y: (x > y).float(),
    ),
    Pair(
        "equal once cast",
        ONE,
        lambda x: torch.where(x.half().float() == x, x, 0.0),
        lambda x: x * 1.0,
    ),
    Pair(
        "weights cast, mean kept",
        ONE,
        lambda x: (lambda p: p.to(BF16).float() / p.sum(-1, keepdim=True))(torch.exp(x)),
        lambda x: x.softmax(-1),
    ),
    # the ends of a type
    Pair(
        "what is too large chosen away",
        ONE,
        lambda x: torch.where(x.half().float().isinf(), torch.zeros(8, 64), x),
        lambda x: x * 1.0,
    ),
    Pair(
        "what is infinite chosen away",
        ONE,
        lambda x: torch.where(x.half().float().isinf(), torch.zeros(8, 64), x),
        lambda x: torch.where(x.isinf(), torch.zeros(8, 64), x),
    ),
    Pair(
        "counted once too large",
        ONE,
        lambda x: ((x * 1e5).half().float().abs() == float("inf")).float().sum(-1),
        lambda x: x.sum(-1) * 0.0,
    ),
    Pair(
        "too large in between",
        HALF,
        lambda x: (x.float() * 8).half() * 0.125,
        lambda x: ((x * 4096).float() / 4096.0).half(),
    ),
    Pair(
        "vanishing in between",
        HALF,
        lambda x: x * 1.0,
        lambda x: ((x * 2.0**-20).float() * 2.0**20).half(),
    ),
    Pair(
        "what vanishes chosen",
        ONE,
        lambda x: torch.where((x * 1e-6).half().float() == 0, torch.ones(8, 64), x),
        lambda x: torch.where(x == 0, torch.ones(8, 64), x),
    ),
    Pair(
        "a grid of the smallest",
        ONE,
        lambda x: (x * 2.0**-20).half().float() * 2.0**20,
        lambda x: x * 1.0,
    ),
    Pair(
        "clamped to f16",
        ONE,
        lambda x: x.clamp(-65504.0, 65504.0).half().float(),
        lambda x: x.half().float(),
        False,
    ),
    Pair(
        "clamped below the end",
        HALF,
        lambda x: x.clamp(-65504.0, 65504.0),
        lambda x: x.clamp(-65472.0, 65472.0),
        False,
    ),
    Pair(
        "sum of squares in f16",
        HALF,
        lambda x: x.float().square().sum(-1).sqrt().half(),
        lambda x: x.square().sum(-1).sqrt(),
    ),
    Pair(
        "scores in f16",
        "8x64:f16 8x64:f16",
        lambda q, k: ((q.float() @ k.float().t()) * 0.125).softmax(-1).half(),
        lambda q, k: ((q @ k.t()).float() * 0.125).softmax(-1).half(),
    ),
    Pair(
        "exponentials in f16",
        HALF,
        lambda x: x.float().softmax(-1).half(),
        lambda x: (lambda e: e / e.sum(-1, keepdim=True))(x.exp()),
    ),
    Pair(
        "mean in bf16 taken off",
        BRAIN,
        lambda x: F.layer_norm(x.float(), (64,)).to(BF16),
        lambda x: (lambda c: (c * torch.rsqrt(c.square().mean(-1, keepdim=True) + 1e-5)).to(BF16))(
            x.float() - x.float().mean(-1, keepdim=True).to(BF16).float()
        ),
    ),
    Pair(
        "one class of those that bf16 tells apart",
        "4x300 4:i64",
        lambda x, t: x.gather(1, t[:, None])[:, 0],
        lambda x, t: (x * (torch.arange(300).to(BF16) == t[:, None].to(BF16))).sum(-1),
    ),
    Pair(
        "a mask by positions in bf16",
        "4x300",
        lambda x: torch.where(torch.arange(300) < 257, x, 0.0),
        lambda x: torch.where(torch.arange(300).to(BF16) < 257, x, 0.0),
    ),
    Pair(
        "a triangle of positions in bf16",
        "300x300",
        lambda x: x.masked_fill(torch.arange(300) > torch.arange(300)[:, None], -torch.inf),
        lambda x: x.masked_fill(
            torch.arange(300).to(BF16) > torch.arange(300).to(BF16)[:, None], -torch.inf
        ),
    ),
    Pair(
        "places of the largest in bf16",
        "2x300",
        lambda x: torch.zeros(2, 300).scatter(1, x.topk(2, -1).indices, 1.0),
        lambda x: (
            (x.topk(2, -1).indices.to(BF16)[..., None] == torch.arange(300).to(BF16)).float().sum(1)
        ),
    ),
    Pair(
        "the sum of what is sorted in f16",
        "4x9",
        lambda x: x.sort(-1).values.sum(-1),
        lambda x: x.half().sort(-1).values.float().sum(-1),
    ),
    Pair(
        "the least in f16",
        "4x9",
        lambda x: x.sort(-1).values[:, 0],
        lambda x: x.half().sort(-1).values[:, 0].float(),
    ),
]
