"""Norms that are limited, and losses of two parts: written with limits, and with choices."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

ROW, TWO = "8x32", "6x10 6x10"
Tensor = torch.Tensor


def size(x: Tensor) -> Tensor:
    return x.norm(dim=-1, keepdim=True)


def safe(x: Tensor) -> Tensor:
    return size(x) + 1e-6


def largest(x: Tensor) -> Tensor:
    return x.abs().amax(-1, keepdim=True).clamp(min=1e-5)


def quantised(x: Tensor, scale: Tensor, limit: float) -> Tensor:
    return (x / scale).round().clamp(-limit, limit) * scale


LIMITS_RIGHT = [
    Pair(
        "a limit that nothing reaches", ROW, lambda x: quantised(x, largest(x) / 127, 127),
        lambda x: (x / (largest(x) / 127)).round() * (largest(x) / 127),
    ),
    Pair(
        "a limit of shares", ROW, lambda x: (x / (x.abs().sum() + 1e-5)).clamp(-1, 1),
        lambda x: x / (x.abs().sum() + 1e-5),
    ),
    Pair(
        "a norm of at most 1", ROW, lambda x: x * (1 / safe(x)).clamp(max=1.0),
        lambda x: torch.where(safe(x) > 1, x / safe(x), x),
    ),
    Pair(
        "a norm of at most 2", ROW, lambda x: torch.where(size(x) > 2, 2 * x / size(x), x),
        lambda x: x * (2 / size(x).clamp(min=2)),
    ),
    Pair(
        "the least of two factors", ROW,
        lambda x: x * torch.minimum(torch.tensor(1.0), 3 / safe(x)),
        lambda x: torch.where(safe(x) < 3, x, 3 * x / safe(x)),
    ),
    Pair(
        "a loss of a norm", ROW,
        lambda x: torch.where(size(x) < 1, 0.5 * size(x) ** 2, size(x) - 0.5),
        lambda x: (lambda c: c * (size(x) - 0.5 * c))(size(x).clamp(max=1)),
    ),
    Pair(
        "a quotient that a choice drops", ROW, lambda x: x * (1 / size(x).clamp(min=1.0)),
        lambda x: torch.where(size(x) > 1, x / size(x), x),
    ),
    Pair(
        "a quotient of either side", ROW, F.softsign,
        lambda x: torch.where(x > 0, x / (1 + x), x / (1 - x)),
    ),
    Pair(
        "a smooth loss", TWO, F.smooth_l1_loss,
        lambda a, b: (lambda d, c: c * (d - 0.5 * c))(
            (a - b).abs(), (a - b).abs().clamp(max=1)
        ).mean(),
    ),
    Pair(
        "a focal loss", "6x4 6x4:b",
        lambda x, y: (
            torch.where(y, 1 - x.sigmoid(), x.sigmoid()) ** 2
            * F.binary_cross_entropy_with_logits(x, y.float(), reduction="none")
        ).mean(),
        lambda x, y: (lambda z: (torch.sigmoid(-z) ** 2 * F.softplus(-z)).mean())(
            x * (2 * y.float() - 1)
        ),
    ),
]  # fmt: skip
