"""Steps of optimisers and of recurrences, with different constants and in a different order."""

from __future__ import annotations

import math

import torch

from written.pairs import Pair

Tensor = torch.Tensor
WEIGHTS, SERIES = "12 12 12 12", "6 4"
RATE, EPS, AFTER = 1e-3, 1e-8, 7
FIRST, SECOND = 1 - 0.9**AFTER, 1 - 0.999**AFTER


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A step as published; ``v`` is the root of the second moment, so that it is defined."""
    m, v = moments(g, m, v)
    return p - RATE * (m / FIRST) / ((v / SECOND).sqrt() + EPS), m, v


def moments(g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return 0.9 * m + (1 - 0.9) * g, 0.999 * v * v + (1 - 0.999) * g * g


def folded(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, eps: float = EPS * math.sqrt(SECOND)
) -> tuple[Tensor, Tensor, Tensor]:
    """The root of the second correction, in the rate."""
    m, v = moments(g, m, v)
    return p - (RATE * math.sqrt(SECOND) / FIRST) * m / (v.sqrt() + eps), m, v


def divided(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, second: float = SECOND
) -> tuple[Tensor, Tensor, Tensor]:
    """The rate in the divisor, as in captured graphs."""
    m, v = moments(g, m, v)
    size = -(RATE / FIRST)
    return p + m / (v.sqrt() / (math.sqrt(second) * size) + EPS / size), m, v


STEPS_RIGHT = [
    Pair("the root in the rate", WEIGHTS, adam, folded),
    Pair("the rate in the divisor", WEIGHTS, adam, divided),
    Pair("powers from the zeroth on", SERIES, lambda x, c: sum(c[i] * x**i for i in range(4)),
        lambda x, c: torch.vander(x, 4, increasing=True) @ c),
]  # fmt: skip
