"""Wrong counterparts of shares, filters, sorted rows and angles: other ranks, ties, divisors of any
sign, empty rows, and numbers on the wrong side."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair
from written.shares_right import (
    ANGLE,
    ROW,
    TWO,
    first,
    likely,
    near_the_largest,
    probable,
    scattered,
    share,
    turned,
)

SHARES_WRONG = [
    Pair("another number of ranks", ROW, lambda x: x.softmax(-1) * first(x, 3),
         lambda x: scattered(x.softmax(-1), 2)),
    Pair("the last ranks", ROW, lambda x: x.softmax(-1) * first(x, 3),
         lambda x: x.softmax(-1) * first(x, 3, largest=False)),
    Pair("ranks of another row", ROW, lambda x: x.softmax(-1) * first(x, 3),
         lambda x: x.softmax(-1) * first(x.flip(0), 3)),
    Pair("shares of all", ROW, lambda x: share(x.softmax(-1) * first(x, 2)),
         lambda x: x.softmax(-1) * first(x, 2)),
    Pair("scores that are masked with zero", ROW,
         lambda x: torch.where(first(x, 2) > 0, x, -math.inf).softmax(-1),
         lambda x: torch.where(first(x, 2) > 0, x, 0).softmax(-1)),
    Pair("ranks of what is not told apart", ROW, lambda x: first(x, 2),
         lambda x: first(x.relu(), 2)),
    Pair("ties of the last rank", ROW, lambda x: first(x, 2),
         lambda x: (x >= x.topk(2, -1).values[:, -1:]).float()),
    Pair("ties of the largest", ROW, lambda x: first(x, 1),
         lambda x: (x == x.amax(-1, keepdim=True)).float()),
    Pair("the smallest", ROW, lambda x: first(x, 1), lambda x: F.one_hot(x.argmin(-1), 8).float()),
    Pair("sum of other ranks", ROW, lambda x: x.topk(3, -1).values.sum(-1),
         lambda x: (x * first(x, 2)).sum(-1)),
    Pair("a function of what is masked", ROW, lambda x: x.topk(3, -1).values.exp().sum(-1),
         lambda x: (x * first(x, 3)).exp().sum(-1)),
    Pair("another logarithm", ROW, lambda x: probable(x, 0.2).softmax(-1),
         lambda x: near_the_largest(x, math.log(0.3)).softmax(-1)),
    Pair("a logarithm on the wrong side", ROW, lambda x: probable(x, 0.2).softmax(-1),
         lambda x: near_the_largest(x, -math.log(0.2)).softmax(-1)),
    Pair("filtered and not divided", ROW, lambda x: probable(x, 0.1).softmax(-1),
         lambda x: likely(x.softmax(-1))),
    Pair("shares with another divisor each", ROW, lambda x: share(x.sigmoid()),
         lambda x: share(x.sigmoid() / x.exp())),
    Pair("shares with a divisor of any sign", "4x8 4x1", lambda x, s: share(x.exp()),
         lambda x, s: share(x.exp() / s)),
    Pair("a mask that may leave nothing", "4x8 4x8:b",
         lambda x,
         m: torch.where(m.any(-1, keepdim=True), torch.where(m, x, -math.inf).softmax(-1), 0),
         lambda x, m: share(torch.where(m, x.softmax(-1), 0))),
    Pair("flipped rows, not elements", ROW, lambda x: x.sort(-1).values,
         lambda x: x.flip(0).sort(-1).values),
    Pair("elements that are taken twice", ROW, lambda x: x.sort(-1).values,
         lambda x: x[:, torch.tensor([0, 1, 2, 3, 4, 5, 6, 6])].sort(-1).values),
    Pair("places after a flip", ROW, lambda x: x.argmax(-1), lambda x: 7 - x.flip(-1).argmax(-1)),
    Pair("a factor outside of an exponential", TWO, lambda x, y: (x.exp() > 3 * y.exp()).float(),
         lambda x, y: (x > 3 * y).float(), False),
    Pair("a negative factor", TWO, lambda x, y: (x.exp() > -3 * y.exp()).float(),
         lambda x, y: (x > y + math.log(3)).float(), False),
    Pair("a factor of a sigmoid", TWO, lambda x, y: (x.sigmoid() > 2 * y.sigmoid()).float(),
         lambda x, y: (x > y + math.log(2)).float(), False),
    Pair("half of twice an angle", ANGLE, lambda x: (2 * x).sin(), lambda x: x.sin() * x.cos()),
    Pair("an angle's other sign", TWO, lambda x, y: (x + y).sin(),
         lambda x, y: x.sin() * y.cos() - x.cos() * y.sin()),
    Pair("the magnitude of a cosine", ANGLE, lambda x: x.cos().abs(), torch.cos, False),
    Pair("the root of a square of a cosine", ANGLE, lambda x: (x.cos() ** 2).sqrt(), torch.cos,
         False),
    Pair("the cosine of a sum", ANGLE, lambda x: x.sum(-1).cos(), lambda x: x.cos().prod(-1),
         False),
    Pair("another angle", "6x2 6x2 1 1", lambda q, k, s, t: (turned(q, s) * turned(k, t)).sum(-1),
         lambda q, k, s, t: (turned(q, t - s) * k).sum(-1)),
]  # fmt: skip
