"""Mixtures of experts, with the shares of the chosen experts in several forms: looked up, scattered
to the places of the experts, as one-hot rows, and expert by expert."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

EXPERTS, SCORES = "6x8 6x4 4x8x5", "6x4"
Tensor = torch.Tensor


def chosen(g: Tensor, count: int = 2) -> tuple[Tensor, Tensor]:
    shares, at = g.softmax(-1).topk(count, -1)
    return shares, at


def scattered(g: Tensor) -> Tensor:
    shares, at = chosen(g)
    return torch.zeros_like(g).scatter(1, at, shares)


def one_hot(g: Tensor, moved: int = 0) -> Tensor:
    shares, at = chosen(g)
    return (F.one_hot((at + moved) % 4, 4).to(g.dtype) * shares[..., None]).sum(1)


def looked_up(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    shares, at = chosen(g)
    return (torch.einsum("td,tkdf->tkf", x, w[at]) * shares[..., None]).sum(1)


def of_all(x: Tensor, weights: Tensor, w: Tensor) -> Tensor:
    return torch.einsum("te,tef->tf", weights, torch.einsum("td,edf->tef", x, w))


def one_after_the_other(x: Tensor, g: Tensor, w: Tensor, first: int = 0) -> Tensor:
    shares, at = chosen(g)
    out = torch.zeros(6, 5)
    for e in range(first, 4):
        out = out + ((at == e) * shares).sum(-1, keepdim=True) * (x @ w[e])
    return out


def best(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    share, at = chosen(g, 1)
    every = torch.stack([x @ w[e] for e in range(4)], 1)
    return every.gather(1, at[:, :, None].expand(-1, -1, 5))[:, 0] * share


def best_one_after_the_other(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    share, at = chosen(g, 1)
    out = torch.zeros(6, 5)
    for e in range(4):
        out = out + (at == e) * share * (x @ w[e])
    return out


EXPERTS_RIGHT = [
    Pair(
        "scattered shares, and experts that are looked up", EXPERTS,
        lambda x, g, w: torch.einsum("te,td,edf->tf", scattered(g), x, w), looked_up,
    ),
    Pair(
        "scattered shares, and one-hot rows", EXPERTS,
        lambda x, g, w: of_all(x, scattered(g), w), lambda x, g, w: of_all(x, one_hot(g), w),
    ),
    Pair(
        "one-hot rows, and experts that are looked up", EXPERTS, looked_up,
        lambda x, g, w: of_all(x, one_hot(g), w),
    ),
    Pair("one expert after the other", EXPERTS, looked_up, one_after_the_other),
    Pair("the best expert", EXPERTS, best, best_one_after_the_other),
    Pair("shares themselves", SCORES, one_hot, scattered, False),
]  # fmt: skip
