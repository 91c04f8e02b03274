"""Softmaxes whose exponentials are masked after they are taken, and that are not the same."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.exponentials_right import ATTENDED, MASKED, TWICE, largest, masked, scores, shares
from written.pairs import Pair

EXPONENTIALS_WRONG = (
    Pair(
        "the mask in the sum only",
        MASKED,
        masked,
        lambda x, m: (lambda e: e / (m * e).sum(-1, keepdim=True))((x - largest(x, m)).exp()),
    ),
    Pair(
        "the mask in the numerator only",
        MASKED,
        masked,
        lambda x, m: torch.where(m, shares((x - x.amax(-1, keepdim=True)).exp()), 0.0),
    ),
    Pair(
        "the other mask",
        MASKED,
        masked,
        lambda x, m: shares(torch.where(m, 0.0, (x - largest(x, m)).exp())),
    ),
    Pair(
        "ones for zeros",
        MASKED,
        masked,
        lambda x, m: shares(torch.where(m, (x - largest(x, m)).exp(), 1.0)),
    ),
    Pair(
        "the largest of all",  # all exponentials vanish if the others are far below
        MASKED,
        masked,
        lambda x, m: shares(torch.where(m, (x - x.amax(-1, keepdim=True)).exp(), 0.0)),
    ),
    Pair(
        "the mask of keys turned",
        ATTENDED,
        lambda q, k, v, m: masked(scores(q, k), m) @ v,
        lambda q, k, v, m: (lambda e: (e @ v) / e.sum(-1, keepdim=True))(
            torch.where(m.T, (scores(q, k) - largest(scores(q, k), m.T)).exp(), 0.0)
        ),
    ),
    Pair(
        "nothing seen is zero",  # a share of a completely masked row is NaN
        MASKED,
        lambda x, m: torch.where(m, (x - largest(x, m)).exp(), 0.0),
        lambda x, m: (x.masked_fill(~m, -torch.inf) - largest(x, m)).exp(),
    ),
    Pair(
        "either of two masks",
        TWICE,
        lambda x, m, n: F.softmax(x.masked_fill(~m, -torch.inf).masked_fill(~n, -torch.inf), -1),
        lambda x, m, n: F.softmax(x.masked_fill(~(m | n), -torch.inf), -1),
    ),
    Pair(
        "one of two masks",
        TWICE,
        lambda x, m, n: F.softmax(x.masked_fill(~m, -torch.inf).masked_fill(~n, -torch.inf), -1),
        lambda x, m, n: F.softmax(x.masked_fill(~n, -torch.inf), -1),
    ),
    Pair(
        "what one of two masks leaves divides",  # both together may mask a row completely
        TWICE,
        lambda x, m, n: F.softmax(x.masked_fill(~m, -torch.inf), -1),
        lambda x, m, n: (
            F.softmax(x.masked_fill(~m, -torch.inf), -1)
            + 0.0 * F.softmax(x.masked_fill(~(m & n), -torch.inf), -1)
        ),
    ),
    Pair(
        "no maximum, and a scale as a power",
        "6x6",
        lambda x: F.softmax(x / math.sqrt(8), -1),
        lambda x: shares((x * 8**-0.5).exp()),
    ),
    Pair(
        "what was filled with zeros is no number",
        "1x2x6x8 1x2x6x8 1x2x6x8 1x1x6x6:b",
        F.scaled_dot_product_attention,
        lambda q, k, v, m: masked(scores(q, k), m) @ v,
    ),
    Pair(
        "filled where a column is empty",
        MASKED,
        masked,
        lambda x, m: torch.where(m.mT.any(-1, keepdim=True), masked(x, m), 0.0),
    ),
    Pair(
        "filled where something is not seen",
        MASKED,
        masked,
        lambda x, m: torch.where(m.all(-1, keepdim=True), masked(x, m), 0.0),
    ),
    Pair(
        "filled, where the other is a number",
        MASKED,
        lambda x, m: x,
        lambda x, m: torch.where(
            m.any(-1, keepdim=True), masked(x, m).sum(-1, keepdim=True) * x, 0.0
        ),
    ),
)
