"""Wrong twins of mixtures of experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.experts_right import (
    EXPERTS,
    SCORES,
    best,
    chosen,
    looked_up,
    of_all,
    one_after_the_other,
    one_hot,
    scattered,
)
from written.pairs import Pair

Tensor = torch.Tensor


def written_twice(x: Tensor, t: Tensor) -> Tensor:
    return torch.zeros(6, 4).scatter(1, t, x)


def added_up(x: Tensor, t: Tensor) -> Tensor:
    return (F.one_hot(t, 4).to(x.dtype) * x[..., None]).sum(1)


def equal_places(g: Tensor) -> Tensor:
    """Both shares are at the place of the first."""
    shares, at = chosen(g)
    return torch.zeros_like(g).scatter(1, at[:, :1].expand(-1, 2), shares)


def counted(g: Tensor) -> tuple[Tensor, Tensor]:
    """Shares, and for each of them the number of experts that have it: one."""
    shares, at = chosen(g)
    return shares, F.one_hot(at, 4).sum(-1)


EXPERTS_WRONG = [
    Pair(
        "a number picked by different places", SCORES,
        lambda g: torch.zeros_like(g).scatter(1, counted(g)[1], counted(g)[0]),
        lambda g: (F.one_hot(counted(g)[1], 4).to(g.dtype) * counted(g)[0][..., None]).sum(1),
    ),
    Pair("places that may be equal", "6x2 6x2:i64", written_twice, added_up),
    Pair(
        "the last of equal places", SCORES, equal_places,
        lambda g: F.one_hot(chosen(g)[1][:, 0], 4) * chosen(g)[0].sum(-1, keepdim=True),
    ),
    Pair(
        "shares of the next expert", EXPERTS, looked_up,
        lambda x, g, w: of_all(x, one_hot(g, 1), w),
    ),
    Pair(
        "shares in the order of the experts", EXPERTS, lambda x, g, w: of_all(x, scattered(g), w),
        lambda x, g, w: of_all(
            x, torch.zeros_like(g).scatter(1, chosen(g)[1].flip(-1), chosen(g)[0]), w
        ),
    ),
    Pair(
        "without the first expert", EXPERTS, looked_up,
        lambda x, g, w: one_after_the_other(x, g, w, 1),
    ),
    Pair(
        "the best expert without its share", EXPERTS, best,
        lambda x, g, w: torch.stack([x @ w[e] for e in range(4)], 1)
        .gather(1, chosen(g, 1)[1][:, :, None].expand(-1, -1, 5))[:, 0],
    ),
]  # fmt: skip
