"""Programs that are nearly the same as those of :mod:`written.decays_right`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.decays_right import (
    MASKED,
    ROW,
    STEPS,
    TWO,
    decayed,
    left,
    masked,
    scattered,
    shifted,
    step_by_step,
    turned,
    turned_by_halves,
)
from written.pairs import Pair

DECAYS_WRONG = (
    Pair("decays of the step before", STEPS, decayed, lambda x, g: step_by_step(x, g, 1)),
    Pair(
        "probabilities of none", ROW, lambda x: torch.exp(F.logsigmoid(x).sum(-1)),
        lambda x: torch.sigmoid(-x).prod(-1),
    ),
    Pair(
        "probabilities before", STEPS,
        lambda x, g: x * torch.cumprod(torch.sigmoid(g), 0)[:, None],
        lambda x, g: x * torch.exp(torch.cumsum(F.logsigmoid(g), 0) - F.logsigmoid(g))[:, None],
    ),
    Pair(
        "a magnitude by its logarithm", ROW, lambda x: x, lambda x: torch.exp(torch.log(x.abs())),
    ),
    Pair(
        "a root of a square", ROW, lambda x: x,
        lambda x: torch.exp(0.5 * torch.log(x * x)),
    ),
    Pair("shares of one more", "8x6", scattered, lambda x: left(x, 3)),
    Pair("shares beside zeros", "8x6", scattered, lambda x: left(x, 2, 0.0)),
    Pair(
        "exponentials times what is not masked", MASKED, masked,
        lambda x, m: x.masked_fill(m, -math.inf).softmax(-1),
    ),
    Pair(
        "exponentials times a mask, with eps", MASKED, masked,
        lambda x, m: torch.exp(x) * m / ((torch.exp(x) * m).sum(-1, keepdim=True) + 1e-3),
    ),
    Pair("powers of eleven", ROW, lambda x: 10.0**x, lambda x: torch.exp(x * math.log(11))),
    Pair(
        "powers of the exponent", TWO, lambda x, y: (x.abs() + 1) ** y,
        lambda x, y: torch.exp(x * torch.log(y.abs() + 1)),
    ),
    Pair(
        "a power of what may be negative", TWO, lambda x, y: x.abs() ** y,
        lambda x, y: torch.exp(y * torch.log(x)),
    ),
    Pair(
        "a logarithm of another number", ROW,
        lambda x: torch.sigmoid(x + torch.log(torch.full((), 3.0))),
        lambda x: 3.001 / (3.001 + torch.exp(-x)),
    ),
    Pair("tables of another base", "6x8", lambda x: turned(x, 10001.0), turned_by_halves),
    Pair(
        "a variance of a shift, more subtracted", "8x24", lambda x: F.layer_norm(x, (24,)),
        lambda x: shifted(x, 1.01),
    ),
    Pair(
        "a limit that is reached", "8x24",
        lambda x: x.square().mean(-1) - 1.5 * x.mean(-1).square(),
        lambda x: F.relu(x.square().mean(-1) - 1.5 * x.mean(-1).square()),
    ),
    Pair(
        "the mean of others", "8x24 8x24", lambda x, y: x.square().mean(-1) - y.mean(-1).square(),
        lambda x, y: F.relu(x.square().mean(-1) - y.mean(-1).square()),
    ),
    Pair(
        "the mean of other elements", "2x8x2",
        lambda x: x.reshape(4, 8).square().mean(1) - x.mean(1).reshape(4).square(),
        lambda x: F.relu(x.reshape(4, 8).square().mean(1) - x.mean(1).reshape(4).square()),
    ),
    Pair(
        "the means of all rows beside each", "4x8",
        lambda x: x.square().mean(1) * torch.ones(4, 1) - x.mean(1, True).square() * torch.ones(4),
        lambda x: F.relu(
            x.square().mean(1) * torch.ones(4, 1) - x.mean(1, True).square() * torch.ones(4)
        ),
    ),
)  # fmt: skip
