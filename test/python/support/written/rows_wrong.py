"""Programs that differ because a property of rows does not hold."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from written.pairs import Pair
from written.rows_right import (
    AVERAGES,
    CLASSES,
    ONE,
    PAGES,
    ROTATED,
    SCORES,
    SLOPES,
    TABLE,
    TURN,
    TWO,
    attended,
    line,
    mixed,
    turned,
)

INF = float("inf")
LAST = torch.zeros(64, 64)
LAST[63, 0] = 1.0


def one_hot(t: torch.Tensor, count: int = 12) -> torch.Tensor:
    return (t[:, None] == line(count)).float()


def counted(x: torch.Tensor, places: bool = False) -> torch.Tensor:
    """The number of elements of a row that are larger than each element; with ``places``, earlier
    equal ones count too."""
    larger = x[:, None, :] > x[:, :, None]
    if places:
        equal = x[:, None, :] == x[:, :, None]
        larger = larger | (equal & (line(12)[None, :] < line(12)[:, None]))
    return larger.long().sum(-1)


def kept_at(
    x: torch.Tensor, rank: torch.Tensor, of: Callable[[torch.Tensor], torch.Tensor], at: int = 1
) -> torch.Tensor:
    return torch.where(rank == at, of(x), 0).sum(-1)


ROWS_WRONG = [
    Pair(
        "the last but one of the sorted",
        ONE,
        lambda x: x.sort(-1).values[..., -2],
        lambda x: x.amax(-1),
        False,
    ),
    Pair(
        "the sorted from the other end",
        ONE,
        lambda x: x.sort(-1).values[..., 0],
        lambda x: x.amax(-1),
        False,
    ),
    Pair(
        "the sorted of one row",
        "8x8",
        lambda x: x.sort(-1).values[0],
        lambda x: x.amax(0),
        False,
    ),
    # orders
    Pair(
        "largest of what may be divided by a negative number",
        TWO,
        lambda x, y: (x / y[:, :1]).amax(-1),
        lambda x, y: x.amax(-1) / y[:, 0],
    ),
    Pair(
        "place of the largest of ties",
        ONE,
        lambda x: F.relu(x).argmax(-1),
        lambda x: x.argmax(-1),
    ),
    Pair(
        "place of the largest of other divisors",
        TWO,
        lambda x, y: (x / (y * y + 1)).argmax(-1),
        lambda x, y: x.argmax(-1),
    ),
    Pair(
        "largest of what falls", ONE, lambda x: (-x).exp().amax(-1), lambda x: (-x.amax(-1)).exp()
    ),
    Pair(
        "compared by another row",
        ONE,
        lambda x: (x.softmax(-1) < x.softmax(-1).roll(1, 0)).float(),
        lambda x: (x < x.roll(1, 0)).float(),
    ),
    Pair(
        "largest of a column",
        ONE,
        lambda x: x.softmax(-1).amax(0),
        lambda x: x.amax(0).exp() / x.exp().sum(-1)[:1],
    ),
    # ranks
    Pair(
        "shares of the smallest",
        ONE,
        lambda x: (lambda p: p / p.sum(-1, keepdim=True))(x.softmax(-1).topk(2).values),
        lambda x: x.topk(2, largest=False).values.softmax(-1),
    ),
    Pair(
        "ranks in which equal ones are alike",
        ONE,
        lambda x: kept_at(x, counted(x), torch.exp),
        lambda x: torch.exp(kept_at(x, counted(x), lambda y: y)),
    ),
    Pair(
        "ranks that are none of a row",
        ONE,
        lambda x: kept_at(x, counted(x, True) + 3, torch.exp, 2),
        lambda x: torch.exp(kept_at(x, counted(x, True) + 3, lambda y: y, 2)),
    ),
    # picked elements
    Pair(
        "another place",
        CLASSES,
        lambda x, t: x.gather(1, t[:, None])[:, 0],
        lambda x, t: (x * one_hot((t + 1) % 12)).sum(-1),
    ),
    Pair(
        "places of a part",
        CLASSES,
        lambda x, t: x.gather(1, t[:, None])[:, 0],
        lambda x, t: (x[:, :11] * one_hot(t, 11)).sum(-1),
    ),
    Pair(
        "none is picked",
        CLASSES,
        lambda x, t: torch.sigmoid((x * one_hot(t - 3)).sum(-1)),
        lambda x, t: (torch.sigmoid(x) * one_hot(t - 3)).sum(-1),
    ),
    Pair(
        "a class that is left out",
        CLASSES,
        lambda x, t: F.cross_entropy(x, t, ignore_index=3),
        lambda x, t: F.cross_entropy(x, t),
    ),
    Pair(
        "a mask that is meant",
        CLASSES,
        lambda x, t: x[:, 0] + torch.where((t >= 0) & (t < 12), 0.0, -INF),
        lambda x, t: x[:, 0] * 1.0,
    ),
    Pair(
        "none is minus infinity",
        CLASSES,
        lambda x, t: (
            torch.where(line(12) == t[:, None], x, 0).sum(-1)
            + torch.where((t >= 0) & (t < 12), 0.0, -INF)
        ),
        lambda x, t: torch.where(line(12) == t[:, None], x, 0).sum(-1),
    ),
    Pair(
        "a sum in place of a mean",
        CLASSES,
        lambda x, t: -x.log_softmax(-1).gather(1, t[:, None]).mean(),
        lambda x, t: F.cross_entropy(x, t, reduction="sum") / 7,
    ),
    # masks that do not keep everything
    Pair(
        "a divergence of what may be zero",
        TWO,
        lambda x, y: F.kl_div(x, F.relu(y), reduction="sum"),
        lambda x, y: (F.relu(y) * (F.relu(y).log() - x)).sum(),
    ),
    Pair(
        "a divergence the other way",
        TWO,
        lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="sum"),
        lambda x, y: (x.softmax(-1) * (x.log_softmax(-1) - y.log_softmax(-1))).sum(),
    ),
    # tables
    Pair(
        "a bias without its columns",
        SCORES,
        lambda q, k, v: attended(q, k, v, (line(8) - line(8)[:, None]) * SLOPES),
        lambda q, k, v: attended(q, k, v, -line(8)[:, None] * SLOPES),
    ),
    # products that pick rows, and lookups in common
    Pair(
        "a lookup of the next row",
        TABLE,
        F.embedding,
        lambda t, w: F.one_hot(t, 12).float() @ w.roll(1, 0),
    ),
    Pair(
        "smoothed by a share of all",
        TABLE,
        lambda t, w: 0.9 * F.embedding(t, w) + 0.1 * w.sum(0),
        lambda t, w: (0.9 * F.one_hot(t, 12) + 0.1 / 12) @ w,
    ),
    Pair(
        "a mixture with shares of the others",
        "6x12 12x4",
        mixed,
        lambda x, w: (
            lambda v, i: (F.one_hot(i, 12) * v.flip(-1).softmax(-1)[..., None]).sum(1) @ w
        )(*x.topk(2)),
    ),
    Pair(
        "a place that more than one truth value may name",
        "6x4:i64 12x4",
        lambda t, w: F.embedding(t[:, 0], w),
        lambda t, w: (line(12) >= t[:, :1]).float() @ w,
    ),
    Pair(
        "rows of a page the other way round",
        PAGES,
        lambda k, p, q: q @ k[p].reshape(2, 9, 4).mT,
        lambda k, p, q: q @ k.reshape(36, 4)[(p[..., None] * 3 + line(3).flip(0)).reshape(2, 9)].mT,
    ),
    Pair(
        "pages by columns",
        PAGES,
        lambda k, p, q: q @ k.index_select(0, p.flatten()).reshape(2, 9, 4).mT,
        lambda k, p, q: q @ k.index_select(0, p.T.flatten()).reshape(2, 9, 4).mT,
    ),
    Pair(
        "pages counted from the end",
        PAGES,
        lambda k, p, q: q @ k[p].reshape(2, 9, 4).mT,
        lambda k, p, q: q @ k.index_select(0, p.flatten()).reshape(2, 9, 4).mT,
    ),
    # products that move columns
    Pair(
        "a rotation the other way round as a product",
        ROTATED,
        lambda x, c, s: x * c + turned(x) * s,
        lambda x, c, s: x * c + (x @ TURN.T) * s,
    ),
    Pair(
        "a product that adds a column",
        ROTATED,
        lambda x, c, s: x * c + turned(x) * s,
        lambda x, c, s: x * c + (x @ (TURN + LAST)) * s,
    ),
    # held numbers that are rounded
    Pair(
        "a running average of one more",
        ONE,
        lambda x: x.cumsum(0) / (line(6) + 2)[:, None],
        lambda x: AVERAGES @ x,
    ),
    Pair(
        "a running average with the next number of f32",
        ONE,
        lambda x: x.cumsum(0) / (line(6) + 1)[:, None],
        lambda x: AVERAGES.nextafter(torch.ones(6, 6)) @ x,
    ),
    Pair(
        "the row of the smallest for that of the largest",
        "6x4 4x8",
        lambda r, w: F.one_hot(r.argmax(-1), 4).float() @ w,
        lambda r, w: w[r.argmin(-1)],
        False,
    ),
    Pair(
        "the largest of all for that of each row",
        "6x4 4x8",
        lambda r, w: w[r.argmax(-1)],
        lambda r, w: w[(r == r.amax()).float().argmax(-1)],
        False,
    ),
    Pair(
        "places that are written to, counted",
        "6x2:i64 6x8",
        lambda t, x: F.one_hot(t, 8).sum(1) * x,
        lambda t, x: torch.zeros(6, 8).scatter(1, t, 1.0) * x,
        False,
    ),
    Pair(
        "experts that are chosen, but for one",
        "6x8",
        lambda r: F.one_hot(r.topk(3).indices, 8).sum(1).float(),
        lambda r: torch.zeros_like(r).scatter(1, r.topk(2).indices, 1.0),
        False,
    ),
]
