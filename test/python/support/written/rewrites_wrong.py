"""Wrong twins of the programs in ``rewrites_right``."""

from __future__ import annotations

import math

import torch

from written.pairs import Pair
from written.rewrites_right import (
    GATES,
    LABELS,
    QUANTISED,
    ROW,
    by_one_hot,
    first,
    focal,
    focal_by_signs,
    normed,
    of_first,
    of_largest,
    of_most,
    scattered,
)

REWRITES_WRONG = [
    Pair("one place fewer", ROW, lambda x: scattered(x, 3).softmax(-1),
        lambda x: torch.where(first(x, 2) > 0, x, -math.inf).softmax(-1)),
    Pair("filled where something is", ROW, lambda x: scattered(x, 2).softmax(-1),
        lambda x: x.masked_fill(first(x, 2) == 1, -math.inf).softmax(-1)),
    Pair("the least expert", GATES, of_largest, lambda x, g, w: of_first(x, -g, w), False),
    Pair("the largest everywhere", ROW, lambda x: first(x, 1) * x,
        lambda x: x.amax(-1, True).expand(4, 8) * 1.0),
    Pair("the largest at the place of the least", ROW, lambda x: first(x, 1) * x,
        lambda x: torch.zeros_like(x).scatter(1, x.argmin(-1, True), x.topk(1).values)),
    Pair("rows are rolled", ROW, lambda x: x.sort(-1).values,
        lambda x: x.roll(1, 0).sort(-1).values),
    Pair("a half twice", ROW, lambda x: x.sort(-1).values,
        lambda x: torch.cat([x[:, 4:], x[:, 4:]], -1).sort(-1).values),
    Pair("limited by halves", ROW, lambda x: x.round().clamp(-1.5, 1.5),
        lambda x: x.clamp(-1.5, 1.5).round()),
    Pair("other limits", QUANTISED, lambda x, s: (x / s).round().clamp(-2, 1) * s,
        lambda x, s: (x / s).clamp(-1, 1).round() * s),
    Pair("rounded down to a half", ROW, lambda x: x.floor().clamp(0.5, 15),
        lambda x: x.clamp(0.5, 15).floor()),
    Pair("up instead of down", ROW, lambda x: x.floor().clamp(0, 15),
        lambda x: x.clamp(0, 15).ceil()),
    Pair("other odds", ROW, lambda x: torch.log(x / (1 - x)),
        lambda x: torch.log(x) - torch.log1p(x)),
    Pair("defined elsewhere", ROW, lambda x: torch.log(x * x / (1 - x)),
        lambda x: torch.log(x) + torch.log(x) - torch.log1p(-x)),
    Pair("other labels", LABELS, focal, lambda x, m: focal_by_signs(x, ~m)),
    Pair("normed twice, with eps", ROW, lambda x: normed(normed(x, 1e-2), 1e-2),
        lambda x: normed(x, 1e-2)),
    Pair("not the rest of a sigmoid", ROW, lambda x: 1 - x.sigmoid(), torch.sigmoid),
    Pair("shares of all", ROW,
        lambda x: first(x, 2) * x.softmax(-1) / (first(x, 2) * x.softmax(-1)).sum(-1, True),
        lambda x: first(x, 2) * x.softmax(-1)),
    Pair("the least expert among all", GATES, of_most, lambda x, g, w: by_one_hot(x, -g, w)),
]  # fmt: skip
