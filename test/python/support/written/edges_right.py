"""Remainders, roots and logarithms at the edges of their domains, each written in two ways."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

Tensor = torch.Tensor


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask[..., None]).sum(0) / mask.sum(0).clamp(min=1)


def guarded_mean(x: Tensor, mask: Tensor) -> Tensor:
    mean = (x * mask[..., None]).sum(0) / mask.sum(0)
    return torch.where(mask.any(), mean, torch.zeros_like(mean))


def left_out(x: Tensor, target: Tensor) -> Tensor:
    """A loss that does not count the class 0."""
    picked = F.log_softmax(x, -1).gather(1, target[:, None])[:, 0]
    kept = target != 0
    return -(picked * kept).sum() / kept.sum()


def safe_log(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), 0.0)


def sparsemax(x: Tensor, *, looked_up: bool = False) -> Tensor:
    """Probabilities, some of which are zero; the threshold is a mean or is looked up."""
    ordered = x.sort(-1, descending=True).values
    sums = ordered.cumsum(-1)
    inside = 1 + torch.arange(1, x.shape[-1] + 1.0) * ordered > sums
    count = inside.sum(-1, keepdim=True)
    kept = sums.gather(-1, count - 1) if looked_up else (ordered * inside).sum(-1, keepdim=True)
    return (x - (kept - 1) / count).clamp(min=0)


EDGES_RIGHT = [
    Pair(
        "a remainder by a rest that is cut",
        "4x5",
        lambda x: torch.remainder(x, 3.0),
        lambda x: torch.fmod(torch.fmod(x, 3.0) + 3.0, 3.0),
        rounding=False,
    ),
    Pair(
        "what is over, up to the next number",
        "4x5",
        lambda x: torch.ceil(x) - torch.floor(x),
        lambda x: torch.where(x == torch.floor(x), 0.0, 1.0),
        rounding=False,
    ),
    Pair(
        "a floor that is moved",
        "4x5",
        lambda x: torch.floor(x + 3.0),
        lambda x: torch.floor(x) + 3.0,
        rounding=False,
    ),
    Pair(
        "a remainder by its floor",
        "4x5",
        lambda x: torch.remainder(x, 3),
        lambda x: x - 3 * torch.floor(x / 3),
        rounding=False,
    ),
    Pair(
        "a remainder by a tensor",
        "4x5 5",
        lambda x, y: torch.remainder(x, 1 + y * y),
        lambda x, y: x - (1 + y * y) * torch.floor(x / (1 + y * y)),
        rounding=False,
    ),
    Pair(
        "a rest that is cut",
        "4x5",
        lambda x: torch.fmod(x, 3),
        lambda x: x - 3 * torch.trunc(x / 3),
        rounding=False,
    ),
    Pair(
        "a quotient that is rounded down",
        "4x5",
        lambda x: torch.floor_divide(x, 3),
        lambda x: torch.floor(x / 3),
        rounding=False,
    ),
    Pair(
        "a root of what is above zero",
        "4x5",
        lambda x: torch.sqrt(F.relu(x)),
        lambda x: torch.where(x > 0, torch.sqrt(x), 0.0),
        rounding=False,  # for NaN, one gives NaN and the other zero
    ),
    Pair(
        "a third root with a sign",
        "4x5",
        lambda x: torch.sign(x) * x.abs().pow(1 / 3),
        lambda x: torch.where(x < 0, -(x.abs() ** (1 / 3)), x.abs() ** (1 / 3)),
    ),
    Pair(
        "a logarithm that is kept", "4x5", safe_log, lambda x: torch.where(x > 0, torch.log(x), 0.0)
    ),
    Pair(
        "a logarithm that is not left out",
        "4x5",
        safe_log,
        lambda x: torch.where(x <= 0, 0.0, torch.log(x)),
    ),
    Pair(
        "a divisor above zero",
        "4x5",
        lambda x: torch.where(x > 0, 1 / torch.where(x > 0, x, 1.0), 0.0),
        lambda x: torch.where(x > 0, 1 / x, 0.0),
    ),
    Pair(
        "a class that does not count",
        "6x5 6:i64",
        lambda x, t: F.cross_entropy(x, t, ignore_index=0),
        left_out,
    ),
    Pair(
        "a distance with its divisor cleared",
        "4 4",
        lambda a, b: torch.where(b > 0, b * torch.sqrt(1 + (a / b) ** 2), a.abs()),
        lambda a, b: torch.where(b > 0, torch.sqrt(a * a + b * b), a.abs()),
        rounding=False,
    ),
]
MEANS = Pair("a mean of nothing", "2x2 2:b", masked_mean, guarded_mean, rounding=False)
