"""Wrong twins of the programs in ``tables_right``: bases, widths and positions that are slightly
wrong."""

from __future__ import annotations

import math

import torch

from written.pairs import Pair
from written.tables_right import (
    DIGITS,
    ROWS,
    SCALES,
    SERIES,
    TURN,
    angles,
    averaged,
    by_logarithm,
    by_steps,
    powers,
    rotated,
    turned,
)

TABLES_WRONG = [
    Pair("turned by another base", "6x8", lambda x: rotated(x, angles(1e4)),
        lambda x: rotated(x, by_logarithm(10001.0))),
    Pair("another base", ROWS, lambda x: turned(x, angles(1e4)),
        lambda x: turned(x, by_logarithm(10001.0))),
    Pair("a base that is nearly the same", ROWS, lambda x: turned(x, angles(1e4)),
        lambda x: turned(x, by_logarithm(1e4 * (1 + 1e-5)))),
    Pair("another width", ROWS, lambda x: turned(x, angles(1e4)),
        lambda x: turned(x, by_logarithm(1e4, 9))),
    Pair("turned back", ROWS, lambda x: x + angles(1e4).cos(),
        lambda x: x + (angles(1e4) - math.pi / 2).sin()),
    Pair("one step later", SERIES, lambda x: x * 0.9 ** torch.arange(6).float(),
        lambda x: x * torch.exp(math.log(0.9) * torch.arange(1, 7).float())),
    Pair("less decay", SERIES, lambda x: x * 0.9 ** torch.arange(6).float(),
        lambda x: x * torch.exp(math.log(0.90001) * torch.arange(6).float())),
    Pair("products of digits", ROWS, lambda x: (x * angles(1e4)) * 1e6,
        lambda x: (x * angles(1e4).bfloat16().float()) * 1e6),
    Pair("one power more", SERIES, by_steps, lambda x: x * 0.9 ** torch.arange(1, 7).float()),
    Pair("powers of a number nearby", SERIES, by_steps,
        lambda x: x * 0.900001 ** torch.arange(6).float()),
    Pair("an average that starts otherwise", "4x6", averaged,
        lambda x: x @ (0.1 * powers() + 0.9 * (torch.arange(6) == 0) * powers()).mT),
    Pair("powers whose roundings matter", SERIES, lambda x: 0 * by_steps(x) + by_steps(x, 0.3),
        lambda x: (x * 0.3 ** torch.arange(6).float() - x) + x),
    Pair("weights of 8 bits with another zero", ROWS, lambda x: x @ ((DIGITS - 3.0) * SCALES),
        lambda x: (x @ DIGITS.float() - 2.0 * x.sum(-1, keepdim=True)) * SCALES, False),
    Pair("weights of 8 bits with other scales", ROWS, lambda x: x @ (DIGITS * SCALES),
        lambda x: (x @ DIGITS.float()) * SCALES.flip(0), False),
    Pair("weights of 8 bits, one rounded otherwise", ROWS,
        lambda x: x @ (DIGITS * SCALES + 1e-5 * (DIGITS == -50)),
        lambda x: (x @ DIGITS.float()) * SCALES, False),
    Pair("a matrix and nearly its elements", "5x2", lambda x: x @ TURN.mT, lambda x: torch.stack(
        [0.29 * x[:, 0] - 0.147 * x[:, 1], 0.51491 * x[:, 1] - 0.1 * x[:, 0]], 1), False),
]  # fmt: skip
