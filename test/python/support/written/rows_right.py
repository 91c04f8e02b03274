"""Programs that are the same because of properties of rows: orders that functions preserve,
elements that are picked, and tables that differ by a common value of each row.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

ONE, TWO, CLASSES = "6x12", "6x12 6x12", "6x12 6:i64"
TABLE, PAGES = "6:i64 12x4", "12x3x4 2x3:i64 2x5x4"
SCORES = "3x8x4 3x8x4 3x8x4"
SLOPES = torch.tensor([0.5, 0.25, 0.125])[:, None, None]


def line(count: int) -> torch.Tensor:
    return torch.arange(count)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * 0.5 + bias).softmax(-1) @ v


ZERO, ONES = torch.zeros(32, 32), torch.eye(32)
TURN = torch.cat([torch.cat([ZERO, ONES], 1), torch.cat([-ONES, ZERO], 1)], 0)
AVERAGES = torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]
ROTATED = "2x4x64x64 64x64 64x64"


def turned(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([-x[..., 32:], x[..., :32]], -1)


def mixed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    shares, experts = x.topk(2)
    return torch.einsum("tk,tkd->td", shares.softmax(-1), w[experts])


ROWS_RIGHT = [
    # orders
    Pair(
        "largest share",
        ONE,
        lambda x: x.softmax(-1).amax(-1),
        lambda x: 1.0 / torch.exp(x - x.amax(-1, keepdim=True)).sum(-1),
    ),
    Pair(
        "place of the largest share",
        ONE,
        lambda x: x.softmax(-1).argmax(-1),
        lambda x: x.argmax(-1),
        False,
    ),
    Pair(
        "largest of increasing functions",
        TWO,
        lambda x, y: torch.tanh(torch.sigmoid(x) / (y * y + 1).sum(-1, keepdim=True)).amax(-1),
        lambda x, y: torch.tanh(torch.sigmoid(x.amax(-1)) / (y * y + 1).sum(-1)),
    ),
    Pair(
        "larger share",
        TWO,
        lambda x, y: torch.where(x.exp() < y.exp(), x, y),
        lambda x, y: torch.where(x < y, x, y),
        False,
    ),
    # picked elements
    Pair(
        "a mean loss",
        CLASSES,
        lambda x, t: -x.log_softmax(-1).gather(1, t[:, None]).mean(),
        lambda x, t: F.cross_entropy(x, t),
    ),
    Pair(
        "a function of what is picked",
        CLASSES,
        lambda x, t: torch.sigmoid(2 * x).gather(1, t[:, None])[:, 0] + 1,
        lambda x, t: torch.sigmoid(2 * x.gather(1, t[:, None])[:, 0]) + 1,
    ),
    Pair(
        "picked by rows and columns",
        "6x12 6x3:i64",
        lambda x, t: x.exp().gather(1, t),
        lambda x, t: x.gather(1, t).exp(),
    ),
    # ranks
    Pair(
        "shares of the largest",
        ONE,
        lambda x: (lambda p: p / p.sum(-1, keepdim=True))(x.softmax(-1).topk(2).values),
        lambda x: x.topk(2).values.softmax(-1),
    ),
    Pair(
        "a function of the sorted",
        ONE,
        lambda x: torch.sigmoid(x).sort(-1).values,
        lambda x: torch.sigmoid(x.sort(-1).values),
        False,
    ),
    Pair(
        "the last of the sorted",
        ONE,
        lambda x: x.sort(-1).values[..., -1],
        lambda x: x.amax(-1),
    ),
    Pair(
        "the ends of the sorted",
        ONE,
        lambda x: x.sort(-1).values[..., -1] - x.sort(-1).values[..., 0],
        lambda x: x.amax(-1) - x.amin(-1),
        False,
    ),
    # products that pick rows
    Pair("a lookup as a product", TABLE, F.embedding, lambda t, w: F.one_hot(t, 12).float() @ w),
    Pair(
        "a lookup as a product, turned",
        TABLE,
        lambda t, w: F.embedding(t, w).T,
        lambda t, w: w.T @ (line(12)[:, None] == t).float(),
    ),
    Pair(
        "a product with smoothed rows",
        TABLE,
        lambda t, w: 0.9 * F.embedding(t, w) + 0.1 * w.sum(0),
        lambda t, w: (0.9 * F.one_hot(t, 12) + 0.1) @ w,
        False,
    ),
    Pair(
        "a mixture as a product",
        "6x12 12x4",
        mixed,
        lambda x, w: (lambda v, i: (F.one_hot(i, 12) * v.softmax(-1)[..., None]).sum(1) @ w)(
            *x.topk(2)
        ),
    ),
    # products that move columns
    Pair(
        "a rotation of halves as a product",
        ROTATED,
        lambda x, c, s: x * c + turned(x) * s,
        lambda x, c, s: x * c + (x @ TURN) * s,
    ),
    # held numbers that are rounded
    Pair(
        "a running average as a product",
        ONE,
        lambda x: x.cumsum(0) / (line(6) + 1)[:, None],
        lambda x: AVERAGES @ x,
    ),
    # lookups in common
    Pair(
        "pages by their numbers",
        PAGES,
        lambda k, p, q: q @ k.index_select(0, p.flatten()).reshape(2, 9, 4).mT,
        lambda k, p, q: q @ k[p].reshape(2, 9, 4).mT,
    ),
    Pair(
        "pages by the numbers of their rows",
        PAGES,
        lambda k, p, q: q @ k[p].reshape(2, 9, 4).mT,
        lambda k, p, q: q @ k.reshape(36, 4)[(p[..., None] * 3 + line(3)).reshape(2, 9)].mT,
    ),
    # omitted sums, masks that keep everything
    Pair(
        "a divergence",
        TWO,
        lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="sum"),
        lambda x, y: (y.softmax(-1) * (y.log_softmax(-1) - x.log_softmax(-1))).sum(),
        False,
    ),
    # tables
    Pair(
        "a bias without its rows",
        SCORES,
        lambda q, k, v: attended(q, k, v, (line(8) - line(8)[:, None]) * SLOPES),
        lambda q, k, v: attended(q, k, v, line(8) * SLOPES),
        False,
    ),
    # places of the largest, and places that are written to
    Pair(
        "the row of the largest",
        "6x4 4x8",
        lambda r, w: F.one_hot(r.argmax(-1), 4).float() @ w,
        lambda r, w: w[r.argmax(-1)],
        False,
    ),
    Pair(
        "the row of the smallest",
        "6x4 4x8",
        lambda r, w: F.one_hot(r.argmin(-1), 4).float() @ w,
        lambda r, w: w[r.argmin(-1)],
        False,
    ),
    Pair(
        "the best expert alone",
        "6x4 6x8 4x8x8",
        lambda r, x, w: torch.einsum("te,td,edf->tf", F.one_hot(r.argmax(-1), 4).float(), x, w),
        lambda r, x, w: torch.bmm(x[:, None], w[r.argmax(-1)])[:, 0],
        False,
    ),
    Pair(
        "experts that are chosen",
        "6x8",
        lambda r: F.one_hot(r.topk(2).indices, 8).sum(1).float(),
        lambda r: torch.zeros_like(r).scatter(1, r.topk(2).indices, 1.0),
    ),
    Pair(
        "the expert that is chosen",
        "6x8",
        lambda r: F.one_hot(r.argmax(-1), 8).float(),
        lambda r: torch.zeros_like(r).scatter(1, r.topk(1).indices, 1.0),
    ),
]
