"""Wrong twins of common spellings."""

from __future__ import annotations

import torch

from written.pairs import Pair
from written.spellings_right import (
    GATE,
    HEADS,
    MASK,
    PLACES,
    ROW,
    SCALE,
    count_of,
    divided_scores,
    mean_of,
)

SPELLINGS_WRONG = [
    Pair(
        "scaled queries in f16", HEADS, divided_scores,
        lambda q, k, v: ((q * SCALE).half().float() @ k.mT).softmax(-1) @ v,
    ),
    Pair(
        "log_softmax without a maximum", ROW, lambda x: x.log_softmax(-1),
        lambda x: x - x.exp().sum(-1, keepdim=True).log(),
    ),
    Pair(
        "variance in one pass", ROW, lambda x: x.var(-1, correction=0),
        lambda x: x.square().mean(-1) - x.mean(-1).square(),
    ),
    Pair(
        "a difference of large numbers", ROW, lambda x: x - x.mean(-1, keepdim=True),
        lambda x: (x * 4096.0 + x) - x * 4096.0 - x.mean(-1, keepdim=True),
    ),
    Pair(
        "distances that are multiplied out", "6x16 6x16", lambda a, b: (a - b).square().sum(-1),
        lambda a, b: a.square().sum(-1) - 2.0 * (a * b).sum(-1) + b.square().sum(-1),
    ),
    Pair(
        "steps at a mean", ROW, lambda x: (x >= x.mean(-1, keepdim=True)) * x,
        lambda x: (x - x.mean(-1, keepdim=True).bfloat16().float() >= 0) * x,
    ),
    Pair("second of the sorted", ROW, lambda x: x.sort(0)[0][-2], lambda x: x.amax(0)),
    Pair("first of the sorted rows", ROW, lambda x: x.sort(-1)[0][0], lambda x: x.amin(0)),
    Pair(
        "sum of most of the sorted", ROW, lambda x: x.sort(-1)[0][:, 1:].sum(-1),
        lambda x: x.sum(-1),
    ),
    Pair("sums of the sorted", ROW, lambda x: x.sort(-1)[0].sum(0), lambda x: x.sum(0)),
    Pair(
        "elements of another row", PLACES, lambda x, t: x.gather(1, t),
        lambda x, t: torch.take_along_dim(x.flip(0), t, 1),
    ),
    Pair(
        "elements counted from the end", PLACES, lambda x, t: torch.take_along_dim(x, t, 1),
        lambda x, t: x.gather(1, t.clamp(min=0)),
    ),
    Pair(
        "places without the last", MASK, lambda m: m.long().cumsum(-1),
        lambda m: (m[:, None, :] & torch.ones(12, 12).tril(-1).bool()).sum(-1) + 1,
    ),
    Pair(
        "variance with what a mask leaves out", "4x10 4x10:b",
        lambda x, m: ((x - mean_of(x, m)) ** 2 * m).sum(-1) / count_of(m)[:, 0],
        lambda x, m: (torch.where(m, x, 0.0) - mean_of(x, m)).square().sum(-1) / count_of(m)[:, 0],
    ),
    Pair("a count of the others", MASK, lambda m: m.sum(-1), lambda m: (~m).float().sum(-1).long()),
    Pair("a mask that is not asked for", MASK, lambda m: m == 0, lambda m: m),
    Pair("a mask in cosines", "6x12 6x12:b", lambda x, m: (x * m).cos(), lambda x, m: x.cos() * m),
    Pair(
        "a gate, turned", GATE,
        lambda x, h, w: (1 - (x @ w).sigmoid()) * x.tanh() + (x @ w).sigmoid() * h,
        lambda x, h, w: torch.lerp(h, x.tanh(), (x @ w).sigmoid()),
    ),
    Pair(
        "places from the other end, of equal ones too", "4x6",
        lambda x: torch.sort(x, -1, descending=True).indices,
        lambda x: torch.sort(x, -1).indices.flip(-1),
    ),
    Pair(
        "the largest but one", "4x6", lambda x: x.topk(2, -1).values,
        lambda x: x.sort(-1).values.flip(-1)[:, 1:3],
    ),
    Pair(
        "sorted by another row", "4x6 4x6", lambda x, y: x.sort(-1, descending=True).values,
        lambda x, y: x.gather(-1, y.sort(-1).indices).flip(-1),
    ),
]  # fmt: skip
