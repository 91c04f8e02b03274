"""Spellings of common programs that differ in what is computed first: pairs that are the same, and
whose rounding errors are no larger than what a rounding of the inputs makes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

HEADS, ROW = "2x3x8x24 2x3x8x24 2x3x8x24", "6x12"
PLACES, MASK = "6x12 6x3:i64", "6x12:b"
SCALE = 24**-0.5
Tensor = torch.Tensor


def divided_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.mT) / math.sqrt(24)).softmax(-1) @ v


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
]  # fmt: skip
