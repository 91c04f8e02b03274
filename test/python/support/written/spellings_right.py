"""Spellings of common programs that differ in the order of operations: pairs that are the same, and
whose rounding errors are no larger than the effect of rounding the inputs."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

HEADS, ROW = "2x3x8x24 2x3x8x24 2x3x8x24", "6x12"
PLACES, MASK = "6x12 6x3:i64", "6x12:b"
GATE = "6x8 6x8 8x8"
SCALE = 24**-0.5
Tensor = torch.Tensor


def divided_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.mT) / math.sqrt(24)).softmax(-1) @ v


def count_of(m: Tensor) -> Tensor:
    return m.sum(-1, keepdim=True).clamp(min=1)


def mean_of(x: Tensor, m: Tensor) -> Tensor:
    return (x * m).sum(-1, keepdim=True) / count_of(m)


SPELLINGS_RIGHT = [
    Pair(
        "scaled queries", HEADS, divided_scores,
        lambda q, k, v: ((q * SCALE) @ k.mT).softmax(-1) @ v,
    ),
    Pair(
        "queries and keys that are both scaled", HEADS, F.scaled_dot_product_attention,
        lambda q, k, v: ((q * 24**-0.25) @ (k * 24**-0.25).mT).softmax(-1) @ v,
    ),
    Pair(
        "log_softmax by logsumexp", ROW, lambda x: x.log_softmax(-1),
        lambda x: x - x.logsumexp(-1, keepdim=True),
    ),
    Pair(
        "a product of exponentials", ROW, lambda x: x.exp().prod(-1), lambda x: x.sum(-1).exp(),
    ),
    Pair("largest of the sorted", ROW, lambda x: x.sort(0)[0][-1], lambda x: x.amax(0)),
    Pair("first of the sorted", ROW, lambda x: x.sort(0, True)[0][0], lambda x: x.max(0).values),
    Pair(
        "sorted from the other end", "4x6", lambda x: x.sort(-1, descending=True).values,
        lambda x: x.sort(-1).values.flip(-1),
    ),
    Pair(
        "the smallest as the last", "4x6", lambda x: x.topk(3, -1, largest=False).values,
        lambda x: x.sort(-1, descending=True).values.flip(-1)[:, :3],
    ),
    Pair(
        "the largest as the last", "4x6", lambda x: x.topk(2, -1).values,
        lambda x: x.sort(-1).values.flip(-1)[:, :2],
    ),
    Pair("sum of the sorted", ROW, lambda x: x.sort(-1)[0].sum(-1), lambda x: x.sum(-1)),
    Pair("mean of the sorted", ROW, lambda x: x.sort(0)[0].mean(0), lambda x: x.mean(0)),
    Pair(
        "elements along a dimension", PLACES, lambda x, t: x.gather(1, t),
        lambda x, t: torch.take_along_dim(x, t, 1),
    ),
    Pair(
        "places of what a mask leaves", MASK, lambda m: m.long().cumsum(-1) - 1,
        lambda m: (m[:, None, :] & torch.ones(12, 12).tril().bool()).sum(-1) - 1,
    ),
    Pair(
        "variance of what a mask leaves", "4x10 4x10:b",
        lambda x, m: ((x - mean_of(x, m)) ** 2 * m).sum(-1) / count_of(m)[:, 0],
        lambda x, m: torch.where(m, x - mean_of(x, m), 0.0).square().sum(-1) / count_of(m)[:, 0],
    ),
    Pair("a count", MASK, lambda m: m.sum(-1), lambda m: m.float().sum(-1).long()),
    Pair("a mask that is asked for", MASK, lambda m: m == 0, lambda m: ~m),
    Pair("a mask that is asked for twice", MASK, lambda m: (m != 0) & (m == 1), lambda m: m),
    Pair(
        "a gate", GATE,
        lambda x, h, w: (1 - (x @ w).sigmoid()) * x.tanh() + (x @ w).sigmoid() * h,
        lambda x, h, w: torch.lerp(x.tanh(), h, (x @ w).sigmoid()),
    ),
    Pair(
        "a gate of a difference", GATE,
        lambda x, h, w: (x @ w).sigmoid() * x + (1 - (x @ w).sigmoid()) * h,
        lambda x, h, w: h + (x @ w).sigmoid() * (x - h),
    ),
    Pair(
        "contrastive loss", "6x16 6x16", lambda a, b: F.cross_entropy(a @ b.T, torch.arange(6)),
        lambda a, b: ((a @ b.T).logsumexp(-1) - (a * b).sum(-1)).mean(),
    ),
]  # fmt: skip
