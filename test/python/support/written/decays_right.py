"""Products written as exponentials of sums of logarithms, powers, chosen scores, rotary tables and
variances, in two ways each."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair

STEPS, ROW, TWO, MASKED = "6x3 6", "8x5", "8x5 8x5", "8x6 8x6:b"
Tensor = torch.Tensor


def decayed(x: Tensor, g: Tensor) -> Tensor:
    """Decaying running sums, computed with the logarithms of the decays."""
    total = torch.cumsum(F.logsigmoid(g), 0)
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    return torch.exp((total[:, None] - total).masked_fill(later, -math.inf)) @ x


def step_by_step(x: Tensor, g: Tensor, first: int = 0) -> Tensor:
    kept, found = torch.sigmoid(g), [x[:1]]
    for i in range(1, 6):
        found.append(found[-1] * kept[i - first : i - first + 1, None] + x[i : i + 1])
    return torch.cat(found)


def scattered(x: Tensor, count: int = 2) -> Tensor:
    """The shares of the largest scores at their places."""
    scores, places = x.topk(count, -1)
    return torch.zeros_like(x).scatter(1, places, scores.softmax(-1))


def left(x: Tensor, count: int = 2, least: float = -math.inf) -> Tensor:
    """The shares of all scores, of which only the largest remain."""
    scores, places = x.topk(count, -1)
    return torch.full_like(x, least).scatter(1, places, scores).softmax(-1)


def kept(x: Tensor) -> Tensor:
    places = x.topk(2, -1).indices
    e = torch.exp(x - x.amax(-1, keepdim=True)) * torch.zeros_like(x).scatter(1, places, 1.0)
    return e / e.sum(-1, keepdim=True)


def masked(x: Tensor, m: Tensor) -> Tensor:
    e = torch.exp(x) * m
    return e / e.sum(-1, keepdim=True)


def turned(x: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary embeddings with wide tables."""
    angles = torch.outer(torch.arange(6.0), base ** (-torch.arange(0, 8, 2).float() / 8))
    wide = torch.cat([angles, angles], -1)
    return x * wide.cos() + torch.cat([-x[:, 4:], x[:, :4]], -1) * wide.sin()


def turned_by_halves(x: Tensor) -> Tensor:
    speeds = torch.exp(-math.log(10000.0) / 8 * torch.arange(0, 8, 2).float())
    angles = torch.arange(6.0)[:, None] * speeds
    c, s, u, v = angles.cos(), angles.sin(), x[:, :4], x[:, 4:]
    return torch.cat([u * c - v * s, v * c + u * s], -1)


def shifted(x: Tensor, times: float = 1.0) -> Tensor:
    """A norm in one pass, shifted by an element."""
    y = x - x[:, :1]
    mean = y.mean(-1, keepdim=True)
    variance = (y * y).mean(-1, keepdim=True) - times * (mean * mean)
    return (y - mean) * torch.rsqrt(variance.clamp(min=0) + 1e-5)


def limited(x: Tensor, count: int) -> Tensor:
    total = x.sum(-1)
    return ((x**2).sum(-1) - total * total / count).clamp(min=0).sqrt()


DECAYS_RIGHT = (
    Pair("decays step by step", STEPS, decayed, step_by_step, False),
    Pair(
        "probabilities of all", ROW, lambda x: torch.exp(F.logsigmoid(x).sum(-1)),
        lambda x: torch.sigmoid(x).prod(-1),
    ),
    Pair(
        "probabilities so far", STEPS,
        lambda x, g: x * torch.cumprod(torch.sigmoid(g), 0)[:, None],
        lambda x, g: x * torch.exp(torch.cumsum(F.logsigmoid(g), 0))[:, None],
    ),
    Pair(
        "a power of a sum of exponentials", ROW, lambda x: torch.exp(2 * F.softplus(x)),
        lambda x: (1 + torch.exp(x)) ** 2, False,
    ),
    Pair("shares of what is left", "8x6", scattered, left),
    Pair("what is left by shares", "8x6", left, scattered),
    Pair("exponentials that are kept", "8x6", left, kept, False),
    Pair(
        "exponentials times a mask", MASKED, masked,
        lambda x, m: x.masked_fill(~m, -math.inf).softmax(-1), False,
    ),
    Pair("powers of ten", ROW, lambda x: 10.0**x, lambda x: torch.exp(x * math.log(10))),
    Pair(
        "a root by a logarithm", ROW, lambda x: (x.abs() + 1) ** (1 / 3),
        lambda x: torch.exp(torch.log(x.abs() + 1) / 3),
    ),
    Pair(
        "powers by logarithms", TWO, lambda x, y: (x.abs() + 1) ** y,
        lambda x, y: torch.exp(y * torch.log(x.abs() + 1)), False,
    ),
    Pair(
        "a logarithm of a number", ROW,
        lambda x: torch.sigmoid(x + torch.log(torch.full((), 3.0))),
        lambda x: 3 / (3 + torch.exp(-x)),
    ),
    Pair("tables of halves", "6x8", turned, turned_by_halves),
    Pair(
        "a variance of a shift, kept from zero", "8x24", lambda x: F.layer_norm(x, (24,)), shifted,
    ),
    Pair(
        "a deviation of sums", "8x24", lambda x: x.std(-1), lambda x: limited(x, 24) / 23**0.5,
        False,
    ),
    Pair(
        "a variance without its negative part", "8x24", lambda x: x.var(-1, unbiased=False),
        lambda x: F.relu(x.square().mean(-1) - x.mean(-1).square()), False,
    ),
)  # fmt: skip
