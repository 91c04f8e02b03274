"""Products of sums with minus infinity: attention in tiles by powers of two, whose running maximum
starts there, and scaled scores with a mask."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from written.pairs import Pair

INF, LOG2E = math.inf, math.log2(math.e)
QKV, MASKED = "2x8x16 2x12x16 2x12x16", "6x6 6x6:b 6x1"


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * 0.25, -1) @ v


def in_tiles(
    power: Callable[[Tensor], Tensor], scale: float, tile: int = 4
) -> Callable[..., Tensor]:
    """Attention with a running maximum."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        most, total, sums = torch.full((2, 8, 1), -INF), torch.zeros(2, 8, 1), torch.zeros(2, 8, 16)
        for at in range(0, 12, tile):
            scores = q @ k[:, at : at + tile].mT * scale
            now = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights, again = power(scores - now), power(most - now)
            total = total * again + weights.sum(-1, keepdim=True)
            sums = sums * again + weights @ v[:, at : at + tile]
            most = now
        return sums / total

    return program


def masked(x: Tensor, m: Tensor) -> Tensor:
    return x.masked_fill(~m, -INF)


INFINITE_RIGHT = [
    Pair("tiles", QKV, attention, in_tiles(torch.exp, 0.25)),
    Pair("tiles by powers of two", QKV, attention, in_tiles(torch.exp2, 0.25 * LOG2E)),
    Pair("tiles, scaled later", QKV, attention,
         in_tiles(lambda x: torch.exp2(x * (0.25 * LOG2E)), 1.0, 5)),
    Pair("scaled under a mask", MASKED, lambda x, m, c: torch.exp2((masked(x, m) - c) * 0.5),
         lambda x, m, c: torch.exp2(masked(x * 0.5, m) - c * 0.5)),
]  # fmt: skip

INFINITE_WRONG = [
    Pair("tiles by powers of another number", QKV, attention, in_tiles(torch.exp2, 0.25)),
    Pair("tiles by powers of nearly two", QKV, attention, in_tiles(torch.exp2, 0.25 * 1.4427)),
    Pair("a part scaled", MASKED, lambda x, m, c: torch.exp((masked(x, m) - c) * 0.5),
         lambda x, m, c: torch.exp(masked(x * 0.5, m) - c)),
    Pair("a mask turned by a sign", MASKED, lambda x, m, c: torch.exp((masked(x, m) - c) * -0.5),
         lambda x, m, c: torch.exp(masked(x * -0.5, m) + c * 0.5)),
    Pair("a mask times zero", MASKED, lambda x, m, c: torch.exp((masked(x, m) - c) * 0.0),
         lambda x, m, c: torch.exp(masked(x * 0.0, m) - c * 0.0)),
    Pair("another mask", MASKED, lambda x, m, c: torch.exp((masked(x, m) - c) * 0.5),
         lambda x, m, c: torch.exp(masked(x * 0.5, m.mT) - c * 0.5)),
    Pair("no mask", MASKED, lambda x, m, c: torch.exp((masked(x, m) - c) * 0.5),
         lambda x, m, c: torch.exp(x * 0.5 - c * 0.5)),
]  # fmt: skip
