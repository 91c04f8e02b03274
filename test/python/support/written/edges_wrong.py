"""Remainders, roots and logarithms that differ at the edges of their domains."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.edges_right import Tensor, left_out, masked_mean, safe_log
from written.pairs import Pair


def plain_mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask[..., None]).mean(0)


EDGES_WRONG = [
    Pair(
        "a remainder, and a rest",
        "4x5",
        lambda x: torch.remainder(x, 3),
        lambda x: torch.fmod(x, 3),
    ),
    Pair(
        "a remainder, cut",
        "4x5",
        lambda x: torch.remainder(x, 3),
        lambda x: x - 3 * torch.trunc(x / 3),
    ),
    Pair(
        "a quotient, cut",
        "4x5",
        lambda x: torch.floor_divide(x, 3),
        lambda x: torch.trunc(x / 3),
    ),
    Pair(
        "a root of the size",
        "4x5",
        lambda x: torch.sqrt(F.relu(x)),
        lambda x: torch.sqrt(x.abs()),
    ),
    Pair(
        "a third root without a sign",
        "4x5",
        lambda x: torch.sign(x) * x.abs().pow(1 / 3),
        lambda x: x.abs() ** (1 / 3),
    ),
    Pair(
        "a third root of negative numbers",
        "4x5",
        lambda x: torch.sign(x) * x.abs().pow(1 / 3),
        lambda x: x.pow(1 / 3),
    ),
    Pair(
        "a logarithm kept below zero",
        "4x5",
        safe_log,
        lambda x: torch.where(x < 0, torch.log(x), 0.0),
    ),
    Pair(
        "a logarithm that is multiplied", "4x5", safe_log, lambda x: (x > 0).float() * torch.log(x)
    ),
    Pair("a mean of all", "2x2 2:b", masked_mean, plain_mean),
    Pair(
        "a class that counts",
        "6x5 6:i64",
        lambda x, t: F.cross_entropy(x, t, ignore_index=1),
        left_out,
    ),
    Pair(
        "a distance of the wrong sign",
        "4 4",
        lambda a, b: torch.where(b < 0, b * torch.sqrt(1 + (a / b) ** 2), a.abs()),
        lambda a, b: torch.where(b < 0, torch.sqrt(a * a + b * b), a.abs()),
    ),
]
NOT_DEFINED = [
    Pair("a logarithm at zero", "4x5", safe_log, lambda x: torch.where(x >= 0, torch.log(x), 0.0)),
    Pair(
        "a divisor at zero",
        "4x5",
        lambda x: torch.where(x > 0, 1 / torch.where(x > 0, x, 1.0), 0.0),
        lambda x: torch.where(x >= 0, 1 / x, 0.0),
    ),
]
"""Programs that differ only where one of them is not defined."""
