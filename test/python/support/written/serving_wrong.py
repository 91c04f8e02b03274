"""Programs for serving models, each compared with one that is nearly the same: another scale,
another grid, a maximum that starts elsewhere, exchanged weights, another eps, the next row.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair
from written.serving_right import (
    E4M3,
    HALF,
    INF,
    PRODUCT,
    QKV,
    ROW,
    SEEN,
    SELF,
    alibi,
    attended,
    causal,
    joined_by_a_sum,
    parts,
    quantised_product,
    rms,
    scaled,
    scores,
    seen_attention,
    seen_in_tiles,
    triangle,
    window_of_five,
)


def started_at_zero(q, k, v):
    """A running maximum that is never below zero."""
    a = q @ k.t() * 40.0 - 300.0
    p = torch.exp(a - a.amax(-1, keepdim=True).clamp(min=0.0))
    return (p @ v) / p.sum(-1, keepdim=True)


def started_at_minus_infinity(q, k, v, m):
    a = (q @ k.t() * 8**-0.5).masked_fill(~m, -INF)
    first, rest = a[:, :6], a[:, 6:]
    m1 = first.amax(-1, keepdim=True)
    m2 = torch.maximum(m1, rest.amax(-1, keepdim=True))
    p1, p2 = torch.exp(first - m1), torch.exp(rest - m2)
    c = torch.exp(m1 - m2)
    return (c * (p1 @ v[:6]) + p2 @ v[6:]) / (
        c * p1.sum(-1, keepdim=True) + p2.sum(-1, keepdim=True)
    )


def of_segments(a, b, x):
    return torch.where(a == b, x.float() * x.float(), 0.0).sum(-1).half()


def in_steps_of_f16(a, b, x):
    y = torch.where(a == b, x * x, torch.zeros((), dtype=torch.float16))
    total = y[:, :8].sum(-1)
    for k in range(8, 128, 8):
        total = total + y[:, k : k + 8].sum(-1)
    return total


def moments_of_segments(a, b, x):
    seen = (a == b).float()
    count = seen.sum(-1)
    return seen, count, (seen * x).sum(-1) / count


def variances(a, b, x):
    seen, count, mean = moments_of_segments(a, b, x)
    return (seen * (x[None, :] - mean[:, None]) ** 2).sum(-1) / count


def variances_in_one_pass(a, b, x):
    seen, count, mean = moments_of_segments(a, b, x)
    return (seen * x * x).sum(-1) / count - mean * mean


def instance_norm_from_the_first(x):
    y, c = x.float(), x[:, :1, :1, :1].float()
    mean, off = y.mean((2, 3), keepdim=True), (y - c).mean((2, 3), keepdim=True)
    square = ((y - c) ** 2).mean((2, 3), keepdim=True)
    return ((y - mean) * torch.rsqrt(square - off**2 + 1e-5)).half()


def group_norm_from_the_first(x):
    y = x.float().reshape(2, 4, -1)
    c = y[:1, :1, :1]
    square, off = ((y - c) ** 2).mean(-1, keepdim=True), (y - c).mean(-1, keepdim=True)
    normed = (y - y.mean(-1, keepdim=True)) * torch.rsqrt(square - off**2 + 1e-5)
    return normed.reshape(x.shape).half()


def joined_twice_moved(q, k, v):
    a, m, b, n = parts(q, k, v)
    return a * torch.sigmoid(m - n + m) + b * torch.sigmoid(n - m)


def logarithm(x, off, back):
    return torch.log(torch.exp(x - off).sum(-1, keepdim=True)) + back


SERVING_WRONG: list[Pair] = [
    # uneven parts
    Pair("joined by a sum of logarithms of 4e4", QKV, attended, joined_by_a_sum),
    Pair("joined by another sigmoid", QKV, attended, joined_twice_moved, False),
    Pair(
        "another maximum added again",
        "6x16 6x16",
        lambda x, y: logarithm(x, x.amax(-1, keepdim=True), x.amax(-1, keepdim=True)),
        lambda x, y: logarithm(x, x.amax(-1, keepdim=True), y.amax(-1, keepdim=True)),
        False,
    ),
    Pair(
        "a maximum of each column",
        "6x6",
        lambda x: x.logsumexp(-1, keepdim=True),
        lambda x: logarithm(x, x.amax(-1)[None, :], x.amax(-1, keepdim=True)),
        False,
    ),
    # values near the mean of one group are far from that of the next
    Pair(
        "group norm about the first element",
        "2x8x6x16:f16",
        lambda x: F.group_norm(x, 4),
        group_norm_from_the_first,
    ),
    Pair(
        "instance norm about the first channel",
        "2x8x32x32:f16",
        F.instance_norm,
        instance_norm_from_the_first,
    ),
    # activations in bf16 that exceed f16
    Pair(
        "norm of bf16 in f16",
        "6x64:bf16",
        lambda x: rms(x.float(), 1.0).bfloat16(),
        lambda x: rms(x.half().float(), 1.0).bfloat16(),
    ),
    Pair(
        "softmax of bf16 in f16",
        "6x64:bf16",
        lambda x: x.softmax(-1),
        lambda x: x.half().softmax(-1).bfloat16(),
    ),
    # masks that one of two programs holds
    Pair(
        "causal by a held triangle without its diagonal",
        SELF,
        causal,
        lambda q, k, v: scores(q, k).masked_fill(~triangle(diagonal=-1), -INF).softmax(-1) @ v,
        False,
    ),
    Pair(
        "causal by the other held triangle",
        SELF,
        causal,
        lambda q, k, v: torch.where(triangle().t(), scores(q, k), -INF).softmax(-1) @ v,
        False,
    ),
    Pair(
        "filled where it is kept",
        SELF,
        causal,
        lambda q, k, v: (
            (
                scores(q, k).masked_fill(triangle(), 0.0) + torch.full((24, 24), -INF).triu(1)
            ).softmax(-1)
            @ v
        ),
        False,
    ),
    Pair(
        "a window by held triangles, of one more",
        SELF,
        window_of_five,
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=triangle() & ~triangle(diagonal=-6)
        ),
        False,
    ),
    # segments, which have one element each for random numbers
    Pair(
        "sums of segments in f16", "128x1:i64 1x128:i64 128x128:f16", of_segments, in_steps_of_f16
    ),
    Pair(
        "variances of segments in one pass",
        "128x1:i64 1x128:i64 128",
        variances,
        variances_in_one_pass,
    ),
    Pair(
        "variance of a vector in one pass",
        "128",
        lambda x: x.var(unbiased=False),
        lambda x: (x * x).mean() - x.mean() ** 2,
    ),
    # scales by the largest
    Pair(
        "largest without magnitudes",
        ROW,
        lambda x: x / (x.abs().amax(-1, keepdim=True) + 1.0),
        lambda x: x / (x.amax(-1, keepdim=True) + 1.0),
        False,
    ),
    Pair(
        "not quantised",
        PRODUCT,
        quantised_product,
        lambda x, w: x @ w,
    ),
    Pair(
        "another grid",
        PRODUCT,
        quantised_product,
        lambda x, w: ((x / scaled(x)).to(torch.float8_e5m2).float() @ w) * scaled(x),
    ),
    Pair(
        "quantised by a scale of all rows",
        PRODUCT,
        quantised_product,
        lambda x, w: (lambda s: ((x / s).to(E4M3).float() @ w) * s)(
            x.abs().amax().clamp(min=1e-4) / 448.0
        ),
    ),
    Pair(
        "quantised to half of the range",
        PRODUCT,
        quantised_product,
        lambda x, w: (lambda s: ((x / s).to(E4M3).float() @ w) * s)(
            x.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 240.0
        ),
    ),
    Pair(
        "scale left out",
        PRODUCT,
        quantised_product,
        lambda x, w: (x / scaled(x)).to(E4M3).float() @ w,
        False,
    ),
    Pair(
        "scale without its least",
        ROW,
        lambda x: x / scaled(x),
        lambda x: x / (x.abs().amax(-1, keepdim=True) / 448.0),
        False,
    ),
    # masks and maxima
    Pair(
        "a maximum from zero",
        QKV,
        lambda q, k, v: (q @ k.t() * 40.0 - 300.0).softmax(-1) @ v,
        started_at_zero,
    ),
    Pair("a first tile of minus infinity", SEEN, seen_attention, started_at_minus_infinity),
    Pair(
        "a tile that is not rescaled",
        SEEN,
        seen_in_tiles,
        lambda q, k, v, m: (
            lambda a: (
                (
                    torch.exp(a[:, :6] - a[:, :6].amax(-1, keepdim=True)) @ v[:6]
                    + torch.exp(a[:, 6:] - a.amax(-1, keepdim=True)) @ v[6:]
                )
                / torch.exp(a - a.amax(-1, keepdim=True)).sum(-1, keepdim=True)
            )
        )((q @ k.t() * 8**-0.5).masked_fill(~m, -1e30)),
        False,
    ),
    Pair(
        "the mask turned round",
        SEEN,
        seen_attention,
        lambda q, k, v, m: seen_attention(q, k, v, ~m),
        False,
    ),
    Pair(
        "masked by a small number",
        SEEN,
        seen_attention,
        lambda q, k, v, m: (q @ k.t() * 8**-0.5).masked_fill(~m, -10.0).softmax(-1) @ v,
        False,
    ),
    Pair(
        "slopes on one side",
        QKV,
        alibi,
        lambda q, k, v: (
            (
                q @ k.t() * 8**-0.5
                - 0.25 * (torch.arange(12)[None, :] - torch.arange(6)[:, None]).clamp(min=0)
            ).softmax(-1)
            @ v
        ),
        False,
    ),
    # norms
    Pair("eps of the next power", "6x16 16", rms, lambda x, g: rms(x, g, 1e-5), False),
    Pair(
        "eps added to the root",
        "6x16 16",
        rms,
        lambda x, g: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6) * g,
        False,
    ),
    Pair("norm without its gain's one", "6x16 16", rms, lambda x, g: rms(x, g + 1.0), False),
    Pair(
        "a moment in f16",
        HALF,
        lambda x: F.layer_norm(x.float(), (16,)).half(),
        lambda x: (
            (x - x.mean(-1, keepdim=True))
            * torch.rsqrt((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2 + 1e-5)
        ),
    ),
    Pair(
        "a variance in one pass",
        ROW,
        lambda x: F.layer_norm(x, (16,)),
        lambda x: (
            (x - x.mean(-1, keepdim=True))
            * torch.rsqrt(
                x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square() + 1e-5
            )
        ),
    ),
    # losses, tables
    Pair(
        "loss of the next class",
        "6x10 6:i64",
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda x, t: x.logsumexp(-1) - x.gather(1, (t + 1)[:, None])[:, 0],
        False,
    ),
    Pair(
        "loss without its maximum",
        "6x10 6:i64",
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda x, t: torch.log(torch.exp(x).sum(-1)) - x.gather(1, t[:, None])[:, 0],
    ),
    Pair(
        "rows of a turned table",
        "10x10 6:i64",
        lambda e, t: e[t],
        lambda e, t: e.t()[t],
        False,
    ),
    # gates
    Pair(
        "up for gate",
        "6x16 16x24",
        lambda x, w: F.silu(x @ w[:, :12]) * (x @ w[:, 12:]),
        lambda x, w: F.silu(x @ w[:, 12:]) * (x @ w[:, :12]),
        False,
    ),
    Pair(
        "gelu with another product of its constants",
        ROW,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + torch.tanh(x * (0.7978845608028654 + 0.0356775 * x * x))),
        False,
    ),
    Pair(
        "weights exchanged",
        "6x8 8x8 8x8",
        lambda x, a, b: F.silu(x @ a) @ b,
        lambda x, a, b: F.silu(x @ b) @ a,
        False,
    ),
    Pair(
        "gate of the next expert",
        "6x8 3x8x8 6x3",
        lambda x, w, g: sum(g[:, e, None] * (x @ w[e]) for e in range(3)),
        lambda x, w, g: sum(g[:, (e + 1) % 3, None] * (x @ w[e]) for e in range(3)),
        False,
    ),
    # whole numbers, casts
    Pair(
        "pages towards zero",
        "9:i64",
        lambda i: (i - 20) // 16,
        lambda i: torch.div(i - 20, 16, rounding_mode="trunc"),
    ),
    Pair("rest of a negative", "9:i64", lambda i: (-i) % 16, lambda i: -(i % 16)),
    Pair(
        "cast before the sum",
        "6x16:f16 6x16:f16",
        lambda x, y: (x.float() * 512.0 + y.float() * 512.0 - x.float() * 511.0).half(),
        lambda x, y: (x * 512.0 + y * 512.0) - x * 511.0,
    ),
    Pair(
        "largest of what is negated", ROW, lambda x: x.argmax(-1), lambda x: (-x).argmax(-1), False
    ),
    Pair(
        "last for first of the largest",
        "6x16:i64",
        lambda x: x.argmax(-1),
        lambda x: 15 - x.flip(-1).argmax(-1),
        False,
    ),
    Pair(
        "sum of exponentials of f16",
        HALF,
        lambda x: x.float().logsumexp(-1).half(),
        lambda x: torch.log(torch.exp(x).sum(-1)),
    ),
    Pair(
        "a triangle without its diagonal, or what is allowed",
        "2x8x4 2x8x4 2x8x4 8:b",
        lambda q, k, v, b: F.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.ones(8, 8).tril(-1).bool() | b
        ),
        lambda q, k, v, b: (
            (q @ k.mT * 4**-0.5)
            .masked_fill((torch.arange(8)[:, None] <= torch.arange(8)) & ~b, -INF)
            .softmax(-1)
            @ v
        ),
    ),
]
