"""Programs at sizes that models have, each beside one that is nearly the same."""

from __future__ import annotations

import torch

from written.large_right import (
    COS,
    ROPE,
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
]
