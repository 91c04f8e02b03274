"""Attention in parts and with masks, each compared with a program that is nearly the same."""

from __future__ import annotations

import math

import torch

from written.kinds_right import (
    INF,
    QKV,
    ROW,
    SQUARE,
    places,
    softmax_attention,
    triangle,
    with_sink,
)
from written.pairs import Pair

HALF = "5x12:f16"


def scores(q, k):
    return q @ k.t() * 8**-0.5


def tiled(q, k, v, *, rescaled=True, first=None, sums=True):
    """Two tiles of keys; omissions make it wrong."""
    o, m, s = 0.0, first, 0.0
    for part in (slice(0, 5), slice(5, 10)):
        a = scores(q, k[part])
        now = (
            a.amax(-1, keepdim=True)
            if m is None
            else a.amax(-1, keepdim=True).clamp(min=m)
            if (isinstance(m, float))
            else torch.maximum(m, a.amax(-1, keepdim=True))
        )
        p = torch.exp(a - now)
        change = 1.0 if m is None or isinstance(m, float) or not rescaled else torch.exp(m - now)
        o = o * change + p @ v[part]
        s = s * (change if sums else 1.0) + p.sum(-1, keepdim=True)
        m = now
    return o / s


def joined(q, k, v, join):
    parts = [(scores(q, k[p]), v[p]) for p in (slice(0, 6), slice(6, 10))]
    (o1, l1), (o2, l2) = ((a.softmax(-1) @ x, a.logsumexp(-1, keepdim=True)) for a, x in parts)
    return join(o1, l1, o2, l2)


def softmax_of(mask):
    return lambda s: torch.where(mask, s, -INF).softmax(-1)


ATTENTION_WRONG: list[Pair] = [
    # attention in parts
    Pair(
        "a tile that is not rescaled",
        QKV,
        softmax_attention,
        lambda q, k, v: tiled(q, k, v, rescaled=False),
        False,
    ),
    Pair(
        "a sum that is not rescaled",
        QKV,
        softmax_attention,
        lambda q, k, v: tiled(q, k, v, sums=False),
        False,
    ),
    Pair(
        "tiles of other values",
        QKV,
        softmax_attention,
        lambda q, k, v: tiled(q, k, v.roll(1, 0)),
        False,
    ),
    Pair(
        "halves by their mean",
        QKV,
        softmax_attention,
        lambda q, k, v: joined(q, k, v, lambda a, l, b, m: 0.6 * a + 0.4 * b),
        False,
    ),
    Pair(
        "halves by a sigmoid of the other sign",
        QKV,
        softmax_attention,
        lambda q, k, v: joined(
            q, k, v, lambda a, l, b, m: torch.sigmoid(m - l) * a + torch.sigmoid(l - m) * b
        ),
        False,
    ),
    Pair(
        "halves by logarithms of powers of two",
        QKV,
        softmax_attention,
        lambda q, k, v: joined(
            q,
            k,
            v,
            lambda a, l, b, m: (
                a * torch.exp(l - torch.logaddexp2(l, m))
                + b * torch.exp(m - torch.logaddexp2(l, m))
            ),
        ),
        False,
    ),
    Pair(
        "halves by the larger logarithm",
        QKV,
        softmax_attention,
        lambda q, k, v: joined(
            q,
            k,
            v,
            lambda a, l, b, m: (
                a * torch.exp(l - torch.maximum(l, m)) + b * torch.exp(m - torch.maximum(l, m))
            ),
        ),
        False,
    ),
    Pair(
        "derivative of a softmax without its sum",
        "6x12 6x12",
        lambda x, g: (p := x.softmax(-1)) * (g - (g * p).sum(-1, keepdim=True)),
        lambda x, g: (p := x.softmax(-1)) * (g - g * p),
        False,
    ),
    Pair(
        "a log of a sum times its factor",
        ROW,
        lambda x: 2.0 * x.logsumexp(-1),
        lambda x: (2.0 * x).logsumexp(-1),
        False,
    ),
    Pair(
        "halves by a sum of logarithms",
        QKV,
        softmax_attention,
        lambda q, k, v: joined(
            q, k, v, lambda a, l, b, m: (a * l.exp() + b * m.exp()) / (l + m).exp()
        ),
        False,
    ),
    Pair(
        "powers of two without the factor",
        QKV,
        softmax_attention,
        lambda q, k, v: (lambda p: (p @ v) / p.sum(-1, keepdim=True))(torch.exp2(scores(q, k))),
        False,
    ),
    Pair(
        "powers of two with a rounded factor",
        QKV,
        softmax_attention,
        lambda q, k, v: (lambda p: (p @ v) / p.sum(-1, keepdim=True))(
            torch.exp2(scores(q, k) * 1.4427)
        ),
        False,
    ),
    Pair(
        "the root of another width",
        QKV,
        softmax_attention,
        lambda q, k, v: (q @ k.t() * 10**-0.5).softmax(-1) @ v,
        False,
    ),
    Pair(
        "scaled after a softmax",
        QKV,
        softmax_attention,
        lambda q, k, v: ((q @ k.t()).softmax(-1) * 8**-0.5) @ v,
        False,
    ),
    Pair(
        "a sink that is seen",
        QKV,
        with_sink,
        lambda q, k, v: (
            torch.cat([scores(q, k), torch.full((6, 1), 0.5)], -1)[:, 1:].softmax(-1) @ v
        ),
        False,
    ),
    Pair(
        "a sink not moved by the maximum",
        QKV,
        with_sink,
        lambda q, k, v: (
            lambda a, m: (
                (torch.exp(a - m) @ v) / (torch.exp(a - m).sum(-1, keepdim=True) + math.exp(0.5))
            )
        )(scores(q, k), scores(q, k).amax(-1, keepdim=True)),
        False,
    ),
    Pair(
        "capped after the scale",
        QKV,
        lambda q, k, v: (30.0 * torch.tanh(scores(q, k) / 30.0)).softmax(-1) @ v,
        lambda q, k, v: (30.0 * torch.tanh(q @ k.t() / 30.0) * 8**-0.5).softmax(-1) @ v,
        False,
    ),
    Pair(
        "capped by a limit",
        QKV,
        lambda q, k, v: (30.0 * torch.tanh(scores(q, k) / 30.0)).softmax(-1) @ v,
        lambda q, k, v: scores(q, k).clamp(-30.0, 30.0).softmax(-1) @ v,
        False,
    ),
    Pair(
        "a term of the key left out",
        QKV,
        lambda q, k, v: ((q + 1.0) @ k.t()).softmax(-1) @ v,
        softmax_attention,
        False,
    ),
    # masks
    Pair(
        "causal without the diagonal",
        SQUARE,
        softmax_of(triangle(10)),
        softmax_of(triangle(10).tril(-1) | (torch.eye(10) * (places(10) == 0) > 0)),
        False,
    ),
    Pair(
        "causal of the other side",
        SQUARE,
        softmax_of(triangle(10)),
        softmax_of(triangle(10).t()),
        False,
    ),
    Pair(
        "a window by one",
        SQUARE,
        softmax_of(triangle(10) & ~triangle(10).tril(-4)),
        softmax_of(triangle(10) & ~triangle(10).tril(-5)),
        False,
    ),
    Pair(
        "blocks by remainders",
        SQUARE,
        softmax_of(places(10)[:, None] // 5 == places(10) // 5),
        softmax_of(places(10)[:, None] % 5 == places(10) % 5),
        False,
    ),
    Pair(
        "a mask of minus ten",
        SQUARE,
        softmax_of(triangle(10)),
        lambda s: (s - 10.0 * ~triangle(10)).softmax(-1),
        False,
    ),
    Pair(
        "zeros before a softmax",
        SQUARE,
        softmax_of(triangle(10)),
        lambda s: (s * triangle(10)).softmax(-1),
        False,
    ),
    Pair(
        "masked after a softmax",
        SQUARE,
        softmax_of(triangle(10)),
        lambda s: s.softmax(-1) * triangle(10),
        False,
    ),
]
