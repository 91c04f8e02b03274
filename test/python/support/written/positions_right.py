"""Programs with masks, lengths, segments, lookups, rotations and orders that are the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.lookups_right import LOOKUPS, ORDERS, ROTATIONS, ROWS, ij
from written.pairs import Pair

INF = float("inf")
QKV, LENGTHS, SEGMENTS = "2x12x8 2x12x8 2x12x8", "3x10x4 3:i64", "12x8 12x8 12x8 12:i64"


def attended(mask=None, add=None):
    """Attention with a mask of truth values, and with a tensor added to its scores."""

    def program(q, k, v):
        s = q @ k.mT * q.shape[-1] ** -0.5
        if add is not None:
            s = s + add(*ij(q.shape[-2]))
        if mask is not None:
            s = s.masked_fill(~mask(*ij(q.shape[-2])), -INF)
        return s.softmax(-1) @ v

    return program


def additive(mask):
    """The same with minus infinity added."""

    def program(q, k, v):
        bias = torch.zeros(q.shape[-2], k.shape[-2]).masked_fill(mask.logical_not(), -INF)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    return program


def causal(i, j):
    return j <= i


def slopes(i, j):
    return torch.tensor([0.5, 0.25])[:, None, None] * (j - i)


def blocks(q, k, v):
    """Attention inside each block of four."""
    q, k, v = (x.reshape(2, 3, 4, 8) for x in (q, k, v))
    return ((q @ k.mT * 8**-0.5).softmax(-1) @ v).reshape(2, 12, 8)


def by_heads(q, k, v):
    heads = [attended(causal)(a, b, c) for a, b, c in zip(q, k, v, strict=True)]
    return torch.stack(heads)


def with_sink(q, k, v):
    """A further score of zero, whose value is zero."""
    s = q @ k.mT * 8**-0.5
    s = torch.cat((s, torch.zeros(2, 12, 1)), -1).softmax(-1)
    return s[..., :-1] @ v


def plus_one(q, k, v):
    s = q @ k.mT * 8**-0.5
    m = s.amax(-1, keepdim=True).clamp(min=0)
    p = (s - m).exp()
    return p @ v / (p.sum(-1, keepdim=True) + (-m).exp())


MASKS = [
    Pair(
        "causal by name",
        QKV,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        attended(causal),
        False,
    ),
    Pair(
        "causal by a lower triangle",
        QKV,
        additive(torch.ones(12, 12).tril().bool()),
        attended(causal),
        False,
    ),
    Pair(
        "causal by an upper triangle",
        QKV,
        additive(~torch.ones(12, 12).triu(1).bool()),
        attended(lambda i, j: ~(j > i)),
        False,
    ),
    Pair(
        "a window by two triangles",
        QKV,
        attended(lambda i, j: (j <= i) & (i - j < 4)),
        additive((torch.ones(12, 12).tril() * torch.ones(12, 12).triu(-3)).bool()),
        False,
    ),
    Pair(
        "a window by a triangle less another",
        QKV,
        attended(lambda i, j: (j <= i) & (i - j < 4)),
        additive((torch.ones(12, 12).tril() - torch.ones(12, 12).tril(-4)).bool()),
        False,
    ),
    Pair(
        "a window on both sides",
        QKV,
        attended(lambda i, j: (i - j).abs() <= 3),
        attended(lambda i, j: (i - j < 4) & (j - i < 4)),
        False,
    ),
    Pair(
        "a prefix by a larger row",
        QKV,
        attended(lambda i, j: (j <= i) | (j < 3)),
        attended(lambda i, j: j <= i.clamp(min=2)),
        False,
    ),
    Pair(
        "dilated by what is left",
        QKV,
        attended(lambda i, j: ((i - j) % 3 == 0) & (j <= i)),
        attended(lambda i, j: (i % 3 == j % 3) & (i >= j)),
        False,
    ),
    Pair("blocks by themselves", QKV, attended(lambda i, j: i // 4 == j // 4), blocks, False),
    Pair("head after head", QKV, attended(causal), by_heads, False),
    Pair(
        "slopes by columns alone",
        QKV,
        attended(causal, slopes),
        attended(causal, lambda i, j: torch.tensor([0.5, 0.25])[:, None, None] * j),
        False,
    ),
    Pair(
        "slopes turned round",
        QKV,
        attended(causal, slopes),
        attended(causal, lambda i, j: -torch.tensor([0.5, 0.25])[:, None, None] * (i - j)),
        False,
    ),
    Pair("a score of zero beside", QKV, with_sink, plus_one, False),
]

# ---- lengths


def inside(lengths):
    return torch.arange(10) < lengths[:, None].clamp(min=1)


def mean(x, lengths):
    m = inside(lengths)[..., None]
    return torch.where(m, x, 0.0).sum(1) / lengths.clamp(min=1)[:, None]


def pooled(x, lengths):
    m = inside(lengths).to(x.dtype)
    return (m[:, None] @ x)[:, 0] / lengths.clamp(min=1)[:, None]


def weighted(mask):
    def program(x, lengths):
        s = x.sum(-1).masked_fill(~mask(lengths), -INF).softmax(-1)
        return (s[..., None] * x).sum(1)

    return program


def last(x, lengths):
    return x[torch.arange(3), lengths]


SEQUENCES = [
    Pair("a mean by a product", LENGTHS, mean, pooled, False),
    Pair(
        "padding by not beyond",
        LENGTHS,
        weighted(inside),
        weighted(lambda n: ~(torch.arange(10) >= n[:, None].clamp(min=1))),
        False,
    ),
    Pair(
        "padding by the last one",
        LENGTHS,
        weighted(lambda n: torch.arange(10) <= n[:, None]),
        weighted(lambda n: n[:, None] - torch.arange(10) >= 0),
        False,
    ),
    Pair(
        "padding by one more",
        LENGTHS,
        weighted(lambda n: torch.arange(10) <= n[:, None]),
        weighted(lambda n: torch.arange(10) < n[:, None] + 1),
        False,
    ),
    Pair(
        "padding by a sum of ones",
        LENGTHS,
        weighted(lambda n: torch.arange(10) <= n[:, None]),
        weighted(lambda n: torch.ones(10, dtype=torch.int64).cumsum(0) <= n[:, None] + 1),
        False,
    ),
    Pair(
        "minus infinity added",
        LENGTHS,
        weighted(inside),
        lambda x, n: (lambda s: (s[..., None] * x).sum(1))(
            (x.sum(-1) + torch.zeros(3, 10).masked_fill(~inside(n), -INF)).softmax(-1)
        ),
        False,
    ),
    Pair(
        "the last row by a lookup",
        LENGTHS,
        lambda x, n: x.gather(1, n[:, None, None].expand(3, 1, 4))[:, 0],
        last,
        False,
    ),
]

# ---- segments


def in_segments(mask):
    def program(q, k, v, s):
        scores = (q @ k.mT).masked_fill(~mask(s[:, None], s[None, :]), -INF)
        return scores.softmax(-1) @ v

    return program


def ordered(mask):
    i, j = ij(12)
    return in_segments(lambda a, b: mask(a, b) & (j <= i))


DOCUMENTS = [
    Pair(
        "segments by their difference",
        SEGMENTS,
        in_segments(lambda a, b: a == b),
        in_segments(lambda a, b: a - b == 0),
        False,
    ),
    Pair(
        "segments by not unequal",
        SEGMENTS,
        in_segments(lambda a, b: a == b),
        in_segments(lambda a, b: ~(a != b)),
        False,
    ),
    Pair(
        "segments by both orders",
        SEGMENTS,
        in_segments(lambda a, b: a == b),
        in_segments(lambda a, b: (a <= b) & (a >= b)),
        False,
    ),
    Pair(
        "segments by columns first",
        SEGMENTS,
        ordered(lambda a, b: a == b),
        ordered(lambda a, b: b == a),
        False,
    ),
    Pair(
        "segments by neither less",
        SEGMENTS,
        ordered(lambda a, b: a == b),
        ordered(lambda a, b: ~((a < b) | (b < a))),
        False,
    ),
]

# ---- running sums


def running(x):
    return x.cumsum(-1)


SUMS = [
    Pair(
        "a running sum as a product", ROWS, running, lambda x: x @ torch.ones(12, 12).triu(), False
    ),
    Pair(
        "a running sum as a mask",
        ROWS,
        running,
        lambda x: torch.where(ij(12)[1] <= ij(12)[0], x[:, None], 0.0).sum(-1),
        False,
    ),
    Pair(
        "a running sum backwards",
        ROWS,
        lambda x: x.flip(-1).cumsum(-1).flip(-1),
        lambda x: x.sum(-1, keepdim=True) - x.cumsum(-1) + x,
        False,
    ),
    Pair(
        "what comes before",
        ROWS,
        lambda x: x.cumsum(-1) - x,
        lambda x: x @ torch.ones(12, 12).triu(1),
        False,
    ),
    Pair(
        "a difference of running sums",
        ROWS,
        lambda x: x[:, 1:],
        lambda x: x.cumsum(-1)[:, 1:] - x.cumsum(-1)[:, :-1],
        False,
    ),
    Pair(
        "a running mean",
        ROWS,
        lambda x: x.cumsum(-1) / torch.arange(1, 13),
        lambda x: x @ (torch.ones(12, 12).triu() / torch.arange(1.0, 13.0)),
        False,
    ),
    Pair(
        "a running sum in parts",
        ROWS,
        running,
        lambda x: torch.cat(
            [
                x[:, a : a + 4].cumsum(-1) + (x[:, : a or 1].sum(-1, keepdim=True) if a else 0)
                for a in (0, 4, 8)
            ],
            -1,
        ),
        False,
    ),
    Pair(
        "sums of windows",
        ROWS,
        lambda x: x.unfold(-1, 3, 1).sum(-1),
        lambda x: x[:, :-2] + x[:, 1:-1] + x[:, 2:],
        False,
    ),
]

SAME_POSITIONS = [*MASKS, *SEQUENCES, *DOCUMENTS, *SUMS, *LOOKUPS, *ROTATIONS, *ORDERS]
