"""Tables that programs compute independently of their inputs, written in two ways."""

from __future__ import annotations

import math

import torch

from written.pairs import Pair

Tensor = torch.Tensor
ROWS, SERIES = "6x4", "6"
DIGITS = (torch.arange(20) ** 3 % 101 - 50).view(4, 5).to(torch.int8)
SCALES = torch.tensor([0.1, 0.07, 0.3, 0.011, 0.9])

TURN = torch.tensor([[0.29, -0.147], [-0.1, 0.5149]])


def angles(base: float, width: int = 8) -> Tensor:
    """The angles of rotary embeddings."""
    positions = torch.arange(6)[:, None].float()
    return positions * base ** (-torch.arange(0, 8, 2).float() / width)


def by_logarithm(base: float, width: int = 8) -> Tensor:
    steps = torch.arange(0, 8, 2).float()
    return torch.arange(6)[:, None].float() * torch.exp(-math.log(base) / width * steps)


def turned(x: Tensor, at: Tensor) -> Tensor:
    return x * at.cos() + at.sin()


def rotated(x: Tensor, at: Tensor) -> Tensor:
    """Rotated halves, as models write it."""
    twice = torch.cat([at, at], -1)
    return x * twice.cos() + torch.cat([-x[:, 4:], x[:, :4]], -1) * twice.sin()


def by_steps(x: Tensor, base: float = 0.9) -> Tensor:
    """Each element times a further power."""
    return torch.cat([x[..., i : i + 1] * base**i for i in range(6)], -1)


def averaged(x: Tensor) -> Tensor:
    """A moving average, one step after the other."""
    found = [0.1 * x[:, 0]]
    for i in range(1, 6):
        found.append(0.9 * found[-1] + 0.1 * x[:, i])
    return torch.stack(found, 1)


def powers(base: float = 0.9) -> Tensor:
    """A triangle of the powers by distance."""
    i = torch.arange(6)
    far = i[:, None] - i
    return torch.where(far >= 0, base ** far.float(), 0.0)


TABLES_RIGHT = [
    Pair("turned by other frequencies", "6x8", lambda x: rotated(x, angles(1e4)),
        lambda x: rotated(x, by_logarithm(1e4))),
    Pair("frequencies by a logarithm", ROWS, lambda x: turned(x, angles(1e4)),
        lambda x: turned(x, by_logarithm(1e4))),
    Pair("frequencies by a quotient", ROWS, lambda x: turned(x, angles(1e4)),
        lambda x: turned(x, torch.arange(6)[:, None] / 1e4 ** (torch.arange(0, 8, 2) / 8))),
    Pair("a cosine as a sine", ROWS, lambda x: x + angles(1e4).cos(),
        lambda x: x + (angles(1e4) + math.pi / 2).sin()),
    Pair("decay by a logarithm", SERIES, lambda x: x * 0.9 ** torch.arange(6).float(),
        lambda x: x * torch.exp(math.log(0.9) * torch.arange(6).float())),
    Pair("powers by steps", SERIES, by_steps, lambda x: x * 0.9 ** torch.arange(6).float()),
    Pair("powers times a constant", SERIES, lambda x: 0.3 * by_steps(x),
        lambda x: x * (0.3 * 0.9 ** torch.arange(6).float())),
    Pair("a matrix of powers", "4x6", averaged, lambda x: x @ (0.1 * powers()).mT),
    Pair("weights of 8 bits that are scaled later", ROWS, lambda x: x @ ((DIGITS - 3.0) * SCALES),
        lambda x: (x @ DIGITS.float() - 3.0 * x.sum(-1, keepdim=True)) * SCALES, False),
    Pair("a matrix and its elements", "5x2", lambda x: x @ TURN.mT, lambda x: torch.stack(
        [0.29 * x[:, 0] - 0.147 * x[:, 1], 0.5149 * x[:, 1] - 0.1 * x[:, 0]], 1), False),
]  # fmt: skip
