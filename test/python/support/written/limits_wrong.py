"""Wrong twins of the programs in ``limits_right``: another side, another limit, and divisors that
may be negative."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.limits_right import ROW, TWO, largest, quantised, safe, size
from written.pairs import Pair

LIMITS_WRONG = [
    Pair(
        "a limit that is reached", ROW, lambda x: quantised(x, largest(x) / 127, 126),
        lambda x: (x / (largest(x) / 127)).round() * (largest(x) / 127),
    ),
    Pair(
        "a limit by sums with signs", ROW, lambda x: (x / (x.sum().abs() + 1e-5)).clamp(-1, 1),
        lambda x: x / (x.sum().abs() + 1e-5),
    ),
    Pair(
        "the largest of columns", ROW, lambda x: (x / largest(x.T).T).clamp(-1, 1),
        lambda x: x / largest(x),
    ),
    Pair(
        "silu by a tangent in f16", "6x16:f16", lambda x: F.silu(x.float()).half(),
        lambda x: 0.5 * x * (1 + torch.tanh(0.5 * x)),
    ),
    Pair(
        "gelu by a tangent in f16", "6x16:f16",
        lambda x: F.gelu(x.float(), approximate="tanh").half(),
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    ),
    Pair(
        "the other side", ROW, lambda x: x * (1 / safe(x)).clamp(max=1.0),
        lambda x: torch.where(safe(x) > 1, x, x / safe(x)),
    ),
    Pair(
        "another limit of a choice", ROW, lambda x: x * (1 / safe(x)).clamp(max=1.0),
        lambda x: torch.where(safe(x) > 1.5, x / safe(x), x),
    ),
    Pair(
        "a divisor that may be negative", ROW,
        lambda x: x * (1 / (size(x) - 1e-6)).clamp(max=1.0),
        lambda x: torch.where(size(x) - 1e-6 > 1, x / (size(x) - 1e-6), x),
    ),
    Pair(
        "a sum that may be negative", ROW,
        lambda x: x * (1 / (x.sum(-1, keepdim=True) / 64 + 2)).clamp(max=1.0),
        lambda x: (lambda s: torch.where(s > 1, x / s, x))(x.sum(-1, keepdim=True) / 64 + 2),
    ),
    Pair(
        "another part of a loss", ROW,
        lambda x: torch.where(size(x) < 1, 0.5 * size(x) ** 2, size(x) - 0.5),
        lambda x: (lambda c: c * (size(x) - c))(size(x).clamp(max=1)),
    ),
    Pair(
        "a smooth loss without half", TWO, F.smooth_l1_loss,
        lambda a, b: (lambda d, c: c * (d - c))((a - b).abs(), (a - b).abs().clamp(max=1)).mean(),
    ),
    Pair(
        "a quotient that is used beside its choice", ROW,
        lambda x: x * (1 / (size(x) - 3).abs().clamp(min=1.0)),
        lambda x: (lambda n, q: torch.where(n > 1, q, x) + 0 * q)(
            (size(x) - 3).abs(), x / (size(x) - 3).abs()
        ),
    ),
    Pair(
        "a quotient of which the reference drops a part", ROW,
        lambda x: (lambda n: torch.where(n > 1, x / n, x))((size(x) - 3).abs()),
        lambda x: (lambda n: (x / n) * n.clamp(max=1.0))((size(x) - 3).abs()),
    ),
    Pair(
        "the other side of a quotient", ROW, F.softsign,
        lambda x: torch.where(x > 0, x / (1 - x), x / (1 + x)),
    ),
    Pair(
        "a choice by another number", ROW, lambda x: x * (1 / size(x).clamp(min=1.0)),
        lambda x: torch.where(size(x) ** 2 > 1, x / size(x), x),
    ),
    Pair(
        "a focal loss of the other class", "6x4 6x4:b",
        lambda x, y: (
            torch.where(y, x.sigmoid(), 1 - x.sigmoid()) ** 2
            * F.binary_cross_entropy_with_logits(x, y.float(), reduction="none")
        ).mean(),
        lambda x, y: (lambda z: (torch.sigmoid(-z) ** 2 * F.softplus(-z)).mean())(
            x * (2 * y.float() - 1)
        ),
    ),
]  # fmt: skip
