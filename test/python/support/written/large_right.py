"""Programs at sizes that models have, each written in two ways that are the same: what small sizes
show by writing everything out has to be shown by what the programs are."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

ROPE = "2x64x96 64x48 64x48"
TURNED = "2x64x96"
SIGNS = "64x96"
_ANGLES = torch.arange(64.0)[:, None] * 10000.0 ** (-torch.arange(48.0) / 48.0)
COS, SIN = torch.cos(_ANGLES), torch.sin(_ANGLES)
WIDE_COS, WIDE_SIN = torch.cat([COS, COS], -1), torch.cat([SIN, SIN], -1)
SIGNED_SIN = torch.cat([-SIN, SIN], -1)


def rotate_half(x):
    h = x.shape[-1] // 2
    return torch.cat([-x[..., h:], x[..., :h]], -1)


def turned_whole(x, c, s):
    """As Transformers turns queries and keys."""
    return x * torch.cat([c, c], -1) + rotate_half(x) * torch.cat([s, s], -1)


def turned_halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def turned_by_choice(x, c, s):
    """Which half it is, by positions."""
    first = torch.arange(96) < 48
    other = torch.where(first, -x.roll(48, -1), x.roll(48, -1))
    return x * torch.cat([c, c], -1) + other * torch.cat([s, s], -1)


def turned_scores(turned, x, c, s):
    y = turned(x, c, s)
    return (y @ y.mT * 96**-0.5).softmax(-1) @ x


LARGE_RIGHT: list[Pair] = [
    Pair("halves turned", ROPE, turned_whole, turned_halves),
    Pair("halves turned, the other way round", ROPE, turned_halves, turned_whole, False),
    Pair("halves chosen by positions", ROPE, turned_halves, turned_by_choice, False),
    Pair(
        "halves turned before scores",
        ROPE,
        lambda x, c, s: turned_scores(turned_whole, x, c, s),
        lambda x, c, s: turned_scores(turned_halves, x, c, s),
        False,
    ),
    Pair(
        "wide tables",
        TURNED,
        lambda x: x * WIDE_COS + rotate_half(x) * WIDE_SIN,
        lambda x: turned_halves(x, COS, SIN),
    ),
    Pair(
        "a table with signs",
        TURNED,
        lambda x: x * WIDE_COS + x.roll(48, -1) * SIGNED_SIN,
        lambda x: turned_halves(x, COS, SIN),
        False,
    ),
    # signs
    Pair("a number by its sign", SIGNS, torch.abs, lambda x: x * torch.sign(x)),
    Pair("a sign by parts", SIGNS, lambda x: x * torch.sign(x), lambda x: F.relu(x) + F.relu(-x)),
    Pair(
        "shrunk by a sign",
        SIGNS,
        lambda x: F.softshrink(x, 0.5),
        lambda x: torch.sign(x) * F.relu(x.abs() - 0.5),
    ),
    Pair(
        "signs of two",
        "64x96 64x96",
        lambda x, y: torch.sign(x) * torch.sign(y) * x * y,
        lambda x, y: x.abs() * y.abs(),
        False,
    ),
]
