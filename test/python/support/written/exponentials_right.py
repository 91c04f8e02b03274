"""Softmaxes whose exponentials are masked after they are taken, or by several masks: the same as
with minus infinity in their arguments, for all masks at once."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

INF = math.inf
MASKED = "6x6 6x6:b"
ATTENDED = "2x6x8 2x6x8 2x6x8 6x6:b"
TWICE = "6x6 6x6:b 6x6:b"
CAUSAL = "2x6x8 2x6x8 2x6x8"


def largest(x, m):
    """The largest unmasked element of each row."""
    return x.masked_fill(~m, -INF).amax(-1, keepdim=True)


def shares(e):
    return e / e.sum(-1, keepdim=True)


def scores(q, k):
    return q @ k.mT / math.sqrt(8)


def triangle(n=6):
    return torch.ones(n, n, dtype=torch.bool).tril()


def below(n=6):
    return torch.arange(n)[None, :] <= torch.arange(n)[:, None]


def masked(x, m):
    return F.softmax(x.masked_fill(~m, -INF), -1)


EXPONENTIALS_RIGHT = (
    Pair(
        "kept after the exponential",
        MASKED,
        masked,
        lambda x, m: shares(torch.where(m, (x - largest(x, m)).exp(), 0.0)),
    ),
    Pair(
        "kept by a product with the mask",
        MASKED,
        masked,
        lambda x, m: shares(m * (x - largest(x, m)).exp()),
        rounding=False,  # zero times an overflow is NaN
    ),
    Pair(
        "kept by a product with numbers",
        MASKED,
        masked,
        lambda x, m: shares((x - largest(x, m)).exp() * m.float()),
        rounding=False,
    ),
    Pair(
        "divided last",
        ATTENDED,
        lambda q, k, v, m: masked(scores(q, k), m) @ v,
        lambda q, k, v, m: (lambda e: (e @ v) / e.sum(-1, keepdim=True))(
            torch.where(m, (scores(q, k) - largest(scores(q, k), m)).exp(), 0.0)
        ),
    ),
    Pair(
        "causal attention",
        CAUSAL,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: (lambda e: (e @ v) / e.sum(-1, keepdim=True))(
            torch.where(below(), (scores(q, k) - largest(scores(q, k), below())).exp(), 0.0)
        ),
    ),
    Pair(
        "two masks, one after the other",
        TWICE,
        lambda x, m, n: F.softmax(x.masked_fill(~m, -INF).masked_fill(~n, -INF), -1),
        lambda x, m, n: F.softmax(x.masked_fill(~(m & n), -INF), -1),
    ),
    Pair(
        "neither of two masks",
        TWICE,
        lambda x, m, n: F.softmax(x.masked_fill(m | n, -INF), -1),
        lambda x, m, n: F.softmax(x.masked_fill(n, -INF).masked_fill(m, -INF), -1),
    ),
    Pair(
        "two masks, added",
        TWICE,
        lambda x, m, n: F.softmax(x.masked_fill(~m, -INF).masked_fill(~n, -INF), -1),
        lambda x, m, n: F.softmax(x + torch.where(n & m, 0.0, -INF), -1),
        rounding=False,  # a NaN that a mask leaves out stays NaN
    ),
    Pair(
        "keys that are padded, and later ones",
        "2x6x8 2x6x8 2x6x8 2x6:b",
        lambda q, k, v, m: (
            F.softmax(
                scores(q, k).masked_fill(~m[:, None, :], -INF).masked_fill(~below(), -INF), -1
            )
            @ v
        ),
        lambda q, k, v, m: (
            F.softmax(scores(q, k).masked_fill(~(m[:, None, :] & triangle()), -INF), -1) @ v
        ),
    ),
    Pair(
        "a scale as a power, under a mask",
        ATTENDED,
        lambda q, k, v, m: masked(scores(q, k), m) @ v,
        lambda q, k, v, m: masked(q @ k.mT * 8**-0.5, m) @ v,
    ),
    Pair(
        "rows of which nothing is seen are filled",
        MASKED,
        masked,
        lambda x, m: torch.where(m.any(-1, keepdim=True), masked(x, m), 0.0),
    ),
    Pair(
        "keys that are padded, fused",
        "1x2x6x8 1x2x6x8 1x2x6x8 1x1x1x6:b",
        lambda q, k, v, m: masked(scores(q, k), m) @ v,
        F.scaled_dot_product_attention,
    ),
)
