"""Products of sums with minus infinity: attention in tiles by powers of two, whose running maximum
starts there, and in a ring; and scaled scores with a mask."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
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


def in_ring(*, turned: bool = False) -> Callable[..., Tensor]:
    """Attention to parts of the keys, whose results are joined by their log-sum-exps."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result, total = torch.zeros(2, 8, 16), torch.full((2, 8, 1), -INF)
        for at in range(0, 12, 4):
            scores = q @ k[:, at : at + 4].mT * 0.25
            part, of_part = scores.softmax(-1) @ v[:, at : at + 4], scores.logsumexp(-1, True)
            if at == 0:
                result, total = part, of_part
                continue
            more = of_part - total
            result = result - torch.sigmoid(more) * (result - part)
            total = total - F.logsigmoid(more if turned else -more)
        return result

    return program


def masked(x: Tensor, m: Tensor) -> Tensor:
    return x.masked_fill(~m, -INF)


def finite(m: Tensor) -> Tensor:
    return torch.where(m == -INF, 0.0, m)


def seen(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """Attention with scores that may be masked completely."""
    scores = masked(x, m)
    weights = torch.exp(scores - finite(scores.amax(-1, keepdim=True)))
    return weights @ v / weights.sum(-1, keepdim=True).clamp(min=1e-20)


def seen_in_tiles(x: Tensor, m: Tensor, v: Tensor, *, late: bool = False) -> Tensor:
    """The same in two tiles; sums are rescaled a step too late, if ``late``."""
    most, total, sums = torch.full((4, 1), -INF), torch.zeros(4, 1), torch.zeros(4, 5)
    for tile, mask, values in zip(x.chunk(2, 1), m.chunk(2, 1), v.chunk(2), strict=True):
        scores = masked(tile, mask)
        now = torch.maximum(most, scores.amax(-1, keepdim=True))
        weights = torch.exp(scores - finite(now))
        again = torch.exp(most - finite(now))
        total = total * again + weights.sum(-1, keepdim=True)
        new = weights @ values
        sums, most = (sums + new) * again if late else sums * again + new, now
    return sums / total.clamp(min=1e-20)


INFINITE_RIGHT = [
    Pair("tiles", QKV, attention, in_tiles(torch.exp, 0.25)),
    Pair("tiles by powers of two", QKV, attention, in_tiles(torch.exp2, 0.25 * LOG2E)),
    Pair("tiles, scaled later", QKV, attention,
         in_tiles(lambda x: torch.exp2(x * (0.25 * LOG2E)), 1.0, 5)),
    Pair("in a ring", QKV, attention, in_ring()),
    Pair("tiles that may be empty", "4x12 4x12:b 12x5", seen, seen_in_tiles),
    Pair("scaled under a mask", MASKED, lambda x, m, c: torch.exp2((masked(x, m) - c) * 0.5),
         lambda x, m, c: torch.exp2(masked(x * 0.5, m) - c * 0.5)),
]  # fmt: skip

INFINITE_WRONG = [
    Pair("tiles by powers of another number", QKV, attention, in_tiles(torch.exp2, 0.25)),
    Pair("tiles by powers of nearly two", QKV, attention, in_tiles(torch.exp2, 0.25 * 1.4427)),
    Pair("in a ring that turns around", QKV, attention, in_ring(turned=True)),
    Pair("tiles that may be empty, rescaled otherwise", "4x12 4x12:b 12x5", seen,
         lambda x, m, v: seen_in_tiles(x, m, v, late=True)),
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
