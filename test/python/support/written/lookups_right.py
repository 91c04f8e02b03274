"""Programs with lookups, rotations and orders that are the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.pairs import Pair

ROWS, TABLE, ROPE, LINES = "6x12", "5:i64 9x8", "2x6x8 6x4 6x4", "6x8"


def ij(n):
    i = torch.arange(n)
    return i[:, None], i[None, :]


def norm(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


LOOKUPS = [
    Pair("rows by name", TABLE, lambda i, t: F.embedding(i, t) * 2, lambda i, t: t[i] * 2, False),
    Pair(
        "rows selected",
        TABLE,
        lambda i, t: t.index_select(0, i).exp(),
        lambda i, t: t[i].exp(),
        False,
    ),
    Pair(
        "rows by elements",
        TABLE,
        lambda i, t: t.index_select(0, i).tanh(),
        lambda i, t: t.gather(0, i[:, None].expand(5, 8)).tanh(),
        False,
    ),
    Pair("a scaled table", TABLE, lambda i, t: t[i] * 3, lambda i, t: (t * 3)[i], False),
    Pair("a normalised table", TABLE, lambda i, t: norm(t[i]), lambda i, t: norm(t)[i], False),
    Pair(
        "a table moved by one",
        TABLE,
        lambda i, t: F.embedding(i, t) * 2,
        lambda i, t: F.pad(t, (0, 0, 1, 0))[i + 1] * 2,
        False,
    ),
    Pair(
        "a table turned round",
        TABLE,
        lambda i, t: F.embedding(i, t) * 2,
        lambda i, t: t.flip(0)[8 - i] * 2,
        False,
    ),
    Pair(
        "indices there and back",
        TABLE,
        lambda i, t: t[i] * 2,
        lambda i, t: t[(i + 5) - 5] * 2,
        False,
    ),
    Pair(
        "half of each row", TABLE, lambda i, t: t[i][:, :4] * 2, lambda i, t: t[:, :4][i] * 2, False
    ),
    Pair(
        "a table times weights",
        "5:i64 9x8 8x6",
        lambda i, t, w: t[i] @ w,
        lambda i, t, w: (t @ w)[i],
        False,
    ),
    Pair(
        "two lookups in another order",
        "5:i64 9x8 9x8",
        lambda i, a, b: a[i] * b[i],
        lambda i, a, b: b[i] * a[i],
        False,
    ),
    Pair(
        "two lookups in one table",
        "5:i64 9x8 9x8",
        lambda i, a, b: a[i] + b[i],
        lambda i, a, b: (a + b)[i],
        False,
    ),
]

# ---- rotations


def half(x, c, s):
    """As written by Hugging Face."""
    turned = torch.cat((-x[..., 4:], x[..., :4]), -1)
    return x * torch.cat((c, c), -1) + turned * torch.cat((s, s), -1)


def halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def interleaved(x, c, s):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


def paired(x, c, s):
    x = x.unflatten(-1, (4, 2))
    a, b = x.unbind(-1)
    return torch.stack((a * c - b * s, b * c + a * s), -1).reshape(2, 6, 8)


def as_complex(x, c, s):
    z = torch.view_as_complex(x.unflatten(-1, (4, 2)))
    return torch.view_as_real(z * torch.complex(c, s)).flatten(-2)


ROTATIONS = [
    Pair("halves apart", ROPE, half, halves, False),
    Pair("pairs of neighbours", ROPE, interleaved, paired, False),
    Pair("complex numbers", ROPE, interleaved, as_complex, False),
    Pair(
        "rotated back",
        ROPE,
        lambda x, c, s: halves(halves(x, c, s), c, -s),
        lambda x, c, s: x * (c * c + s * s).repeat(1, 2),
        False,
    ),
    Pair(
        "scores of halves and of pairs",
        "2x6x8 2x6x8 6x4 6x4",
        lambda q, k, c, s: interleaved(q, c, s) @ interleaved(k, c, s).mT,
        lambda q, k, c, s: (lambda f: halves(f(q), c, s) @ halves(f(k), c, s).mT)(
            lambda x: torch.cat((x[..., 0::2], x[..., 1::2]), -1)
        ),
        False,
    ),
]

# ---- orders and rolls


ORDERS = [
    Pair(
        "the largest by an order",
        LINES,
        lambda x: x.topk(3).values,
        lambda x: x.sort(descending=True).values[:, :3],
        False,
    ),
    Pair(
        "the largest one",
        LINES,
        lambda x: x.topk(1).values,
        lambda x: x.amax(-1, keepdim=True),
        False,
    ),
    Pair(
        "the sum of the largest",
        LINES,
        lambda x: x.topk(3).values.sum(-1),
        lambda x: x.sort(-1).values[:, -3:].sum(-1),
        False,
    ),
    Pair(
        "an order turned round",
        LINES,
        lambda x: x.sort(descending=True).values,
        lambda x: x.sort().values.flip(-1),
        False,
    ),
    Pair(
        "an order of negatives",
        LINES,
        lambda x: x.sort(descending=True).values,
        lambda x: -(-x).sort().values,
        False,
    ),
    Pair(
        "a median by its rank",
        LINES,
        lambda x: x.median(-1).values,
        lambda x: x.sort().values[:, 3],
        False,
    ),
    Pair(
        "routing after a softmax",
        LINES,
        lambda x: (lambda p: p / p.sum(-1, keepdim=True))(x.softmax(-1).topk(2).values),
        lambda x: x.topk(2).values.softmax(-1),
        False,
    ),
    Pair(
        "rolled by parts",
        ROWS,
        lambda x: x.roll(3, -1),
        lambda x: torch.cat((x[:, -3:], x[:, :-3]), -1),
        False,
    ),
    Pair(
        "rolled there and back",
        ROWS,
        lambda x: x.roll(5, -1).exp().roll(-5, -1),
        lambda x: x.exp(),
        False,
    ),
    Pair("turned twice", ROWS, lambda x: x.flip(-1).tanh().flip(-1), lambda x: x.tanh(), False),
    Pair(
        "padded and cut",
        ROWS,
        lambda x: F.pad(x, (2, 3))[:, 1:-2],
        lambda x: torch.cat((torch.zeros(6, 1), x, torch.zeros(6, 1)), -1),
        False,
    ),
    Pair(
        "a triangle as a choice",
        "12x12",
        lambda x: x.tril(-1),
        lambda x: torch.where(ij(12)[1] < ij(12)[0], x, 0.0),
        False,
    ),
    Pair("two triangles", "12x12", lambda x: x.tril() + x.triu(1), lambda x: x * 1, False),
]
