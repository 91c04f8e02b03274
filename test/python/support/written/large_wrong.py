"""Programs at sizes that models have, each beside one that is nearly the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.large_right import (
    COS,
    ROPE,
    SIGNS,
    SIN,
    TURNED,
    WIDE_COS,
    WIDE_SIN,
    rotate_half,
    turned_halves,
    turned_whole,
)
from written.pairs import Pair


def swapped_halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([b * c + a * s, a * c - b * s], -1)


def one_sign(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c + b * s, b * c + a * s], -1)


ONE_OTHER = torch.ones(8, 96)
ONE_OTHER[5, 7] = 2.0


def rare(x):
    """Not zero for few numbers, which are far away."""
    return F.relu(x - 50.0) * F.relu(50.001 - x)


def chosen_until(n):
    def turned(x, c, s):
        other = torch.where(torch.arange(96) < n, -x.roll(48, -1), x.roll(48, -1))
        return x * torch.cat([c, c], -1) + other * torch.cat([s, s], -1)

    return turned


LARGE_WRONG: list[Pair] = [
    Pair("swapped halves", ROPE, turned_whole, swapped_halves, False),
    Pair("turned with one sign", ROPE, turned_whole, one_sign, False),
    Pair("turned the other way", ROPE, turned_whole, lambda x, c, s: turned_halves(x, c, -s)),
    Pair(
        "halves shifted by one",
        ROPE,
        turned_whole,
        lambda x, c, s: turned_whole(x.roll(1, -1), c, s).roll(-1, -1),
        False,
    ),
    Pair("one choice more", ROPE, turned_halves, chosen_until(49), False),
    Pair("a quarter less", ROPE, turned_halves, chosen_until(24), False),
    Pair(
        "tables for the next position",
        TURNED,
        lambda x: x * WIDE_COS + rotate_half(x) * WIDE_SIN,
        lambda x: turned_halves(x, COS.roll(-1, 0), SIN),
        False,
    ),
    Pair(
        "a table without signs",
        TURNED,
        lambda x: x * WIDE_COS + x.roll(48, -1) * WIDE_SIN,
        lambda x: turned_halves(x, COS, SIN),
        False,
    ),
    # signs
    Pair(
        "another number at one place",
        "8x96",
        lambda x: F.relu(x) + rare(x),
        lambda x: F.relu(x) + rare(x) * ONE_OTHER,
        False,
    ),
    Pair("a sign that is 1 at 0", SIGNS, torch.abs, lambda x: torch.where(x < 0, -x, x + rare(x))),
    Pair("both signs subtracted", SIGNS, torch.abs, lambda x: F.relu(x) - F.relu(-x), False),
    Pair("the sign of the next", SIGNS, torch.abs, lambda x: x * torch.sign(x.roll(1, -1)), False),
    Pair("a sign for a number", SIGNS, torch.abs, lambda x: torch.sign(x) * torch.sign(x), False),
]
