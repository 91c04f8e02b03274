"""Programs with masks, lengths, segments, lookups, rotations and orders: nearly the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.lookups_right import (
    LINES,
    ROPE,
    ROWS,
    TABLE,
    half,
    halves,
    ij,
    interleaved,
    norm,
)
from written.pairs import Pair
from written.positions_right import (
    INF,
    LENGTHS,
    QKV,
    SEGMENTS,
    additive,
    attended,
    blocks,
    causal,
    in_segments,
    inside,
    mean,
    ordered,
    plus_one,
    running,
    slopes,
    weighted,
    with_sink,
)


def window(i, j):
    return (j <= i) & (i - j < 4)


def by_rows(i, j):
    return torch.tensor([0.5, 0.25])[:, None, None] * i


def late_blocks(q, k, v):
    """Blocks of four that begin at the second element."""
    return blocks(q, k.roll(1, 1), v.roll(1, 1))


def without_maximum_of_zero(q, k, v):
    """The additional score is as large as the largest, not zero."""
    s = q @ k.mT * 8**-0.5
    m = s.amax(-1, keepdim=True)
    p = (s - m).exp()
    return p @ v / (p.sum(-1, keepdim=True) + 1)


def turned_half(x, c, s):
    turned = torch.cat((x[..., 4:], -x[..., :4]), -1)
    return x * torch.cat((c, c), -1) + turned * torch.cat((s, s), -1)


def repeated_half(x, c, s):
    turned = torch.cat((-x[..., 4:], x[..., :4]), -1)
    return x * c.repeat_interleave(2, -1) + turned * s.repeat_interleave(2, -1)


def minus(a):
    return torch.ones(12, 12).tril() - torch.ones(12, 12).tril(a)


def both(f, g):
    return lambda x, c, s: f(x, c, s) @ g(x, c, s).mT


OTHER_POSITIONS = [
    Pair("causal without its diagonal", QKV, attended(causal),
         attended(lambda i, j: (j < i) | (i == 0)), False),
    Pair("a triangle one further", QKV, attended(causal),
         additive(torch.ones(12, 12).tril(1).bool()), False),
    Pair("the other triangle", QKV, attended(causal),
         additive(torch.ones(12, 12).triu().bool()), False),
    Pair("a window of one more by triangles", QKV, attended(window),
         additive((torch.ones(12, 12).tril() * torch.ones(12, 12).triu(-4)).bool()), False),
    Pair("a window of one less", QKV, attended(window), additive(minus(-3).bool()), False),
    Pair("a window on one side", QKV, attended(lambda i, j: (i - j).abs() < 4),
         attended(window), False),
    Pair("a prefix of one less", QKV, attended(lambda i, j: (j <= i) | (j < 3)),
         attended(lambda i, j: j <= i.clamp(min=1)), False),
    Pair("dilated by another step", QKV, attended(lambda i, j: ((i - j) % 3 == 0) & (j <= i)),
         attended(lambda i, j: (i % 4 == j % 4) & (j <= i)), False),
    Pair("dilated by thirds", QKV, attended(lambda i, j: ((i - j) % 3 == 0) & (j <= i)),
         attended(lambda i, j: (i // 3 == j // 3) & (j <= i)), False),
    Pair("blocks that begin later", QKV, attended(lambda i, j: i // 4 == j // 4), late_blocks,
         False),
    Pair("blocks of three", QKV, blocks, attended(lambda i, j: i // 3 == j // 3), False),
    Pair("no slopes", QKV, attended(causal, slopes), attended(causal, by_rows), False),
    Pair("slopes of the other sign", QKV, attended(causal, slopes),
         attended(causal, lambda i, j: -slopes(i, j)), False),
    Pair("slopes of other heads", QKV, attended(causal, slopes), attended(
        causal, lambda i, j: torch.tensor([0.25, 0.5])[:, None, None] * (j - i)), False),
    Pair("a score beside that is the largest", QKV, with_sink, without_maximum_of_zero, False),
    Pair("no score beside", QKV, plus_one, attended(), False),
    Pair("a mean of one more", LENGTHS, mean, lambda x, n: torch.where(
        (torch.arange(10) <= n[:, None].clamp(min=1))[..., None], x, 0.0).sum(1)
        / n.clamp(min=1)[:, None], False),
    Pair("a mean of all", LENGTHS, mean, lambda x, n: x.mean(1) + 0 * n[:, None], False),
    Pair("a mean over one more", LENGTHS, mean, lambda x, n: torch.where(
        inside(n)[..., None], x, 0.0).sum(1) / (n + 1).clamp(min=1)[:, None], False),
    Pair("padding of one less", LENGTHS, weighted(lambda n: torch.arange(10) <= n[:, None]),
         weighted(lambda n: torch.arange(10) <= n[:, None] - 1), False),
    Pair("padding of lengths of the next", LENGTHS, weighted(inside),
         weighted(lambda n: inside(n.roll(1))), False),
    Pair("padding of the beginning", LENGTHS, weighted(lambda n: torch.arange(10) <= n[:, None]),
         weighted(lambda n: torch.arange(9, -1, -1) <= n[:, None]), False),
    Pair("the row before the last", LENGTHS, lambda x, n: x[torch.arange(3), n],
         lambda x, n: x[torch.arange(3), n - 1], False),
    Pair("the last row of the first", LENGTHS, lambda x, n: x[torch.arange(3), n],
         lambda x, n: x[0, n], False),
    Pair("segments of at most", SEGMENTS, in_segments(lambda a, b: a == b),
         in_segments(lambda a, b: a <= b), False),
    Pair("segments beside", SEGMENTS, in_segments(lambda a, b: a == b),
         in_segments(lambda a, b: (a - b).abs() <= 1), False),
    Pair("segments moved by one", SEGMENTS, in_segments(lambda a, b: a == b),
         in_segments(lambda a, b: a == b.roll(1, -1)), False),
    Pair("segments in no order", SEGMENTS, ordered(lambda a, b: a == b),
         in_segments(lambda a, b: a == b), False),
    Pair("segments or an order", SEGMENTS, ordered(lambda a, b: a == b),
         in_segments(lambda a, b: (a == b) | (ij(12)[1] <= ij(12)[0])), False),
    Pair("a running sum from the end", ROWS, running,
         lambda x: x @ torch.ones(12, 12).tril(), False),
    Pair("a running sum without its own", ROWS, running,
         lambda x: x @ torch.ones(12, 12).triu(1), False),
    Pair("a running sum of the other dimension", "12x12", lambda x: x.cumsum(-1),
         lambda x: x.cumsum(0), False),
    Pair("a running mean of one more", ROWS, lambda x: x.cumsum(-1) / torch.arange(1, 13),
         lambda x: x.cumsum(-1) / torch.arange(2, 14), False),
    Pair("a running sum in parts that are not joined", ROWS, running, lambda x: torch.cat(
        [x[:, a : a + 4].cumsum(-1) for a in (0, 4, 8)], -1), False),
    Pair("windows that begin later", ROWS, lambda x: x.unfold(-1, 3, 1).sum(-1)[:, :-1],
         lambda x: x[:, 1:-2] + x[:, 2:-1] + x[:, 3:], False),
    Pair("the next row", TABLE, lambda i, t: F.embedding(i, t) * 2, lambda i, t: t[i + 1] * 2,
         False),
    Pair("a row below the first", TABLE, lambda i, t: F.embedding(i, t) * 2,
         lambda i, t: F.embedding((i - 1).clamp(min=0), t) * 2, False),
    Pair("the last row left out", TABLE, lambda i, t: F.embedding(i, t) * 2,
         lambda i, t: F.embedding(i.clamp(max=7), t) * 2, False),
    Pair("a table that goes around", TABLE, lambda i, t: F.embedding(i, t).exp(),
         lambda i, t: F.embedding(i, t.roll(1, 0)).exp(), False),
    Pair("a normalised column", TABLE, lambda i, t: norm(t[i]), lambda i, t: norm(t.mT).mT[i],
         False),
    Pair("a table padded at the end", TABLE, lambda i, t: F.embedding(i, t) * 2,
         lambda i, t: F.pad(t, (0, 0, 0, 1))[i + 1] * 2, False),
    Pair("a table turned round by one more", TABLE, lambda i, t: F.embedding(i, t) * 2,
         lambda i, t: t.flip(0)[(9 - i).clamp(max=8)] * 2, False),
    Pair("the other half of each row", TABLE, lambda i, t: t[i][:, :4] * 2,
         lambda i, t: t[:, 4:][i] * 2, False),
    Pair("elements of the next row", TABLE, lambda i, t: t.index_select(0, i).tanh(),
         lambda i, t: t.reshape(-1)[(i * 8)[:, None] + torch.arange(1, 9)].tanh(), False),
    Pair("elements in steps of seven", TABLE, lambda i, t: t.index_select(0, i).tanh(),
         lambda i, t: t.reshape(-1)[(i * 7)[:, None] + torch.arange(8)].tanh(), False),
    Pair("indices from the other end", TABLE, lambda i, t: t[i].exp(),
         lambda i, t: F.embedding(i.abs(), t).exp(), False),
    Pair("weights of another table", "5:i64 9x8 9x8", lambda i, a, b: a[i] + b[i],
         lambda i, a, b: a[i] + b[i.flip(0)], False),
    Pair("halves turned the other way", ROPE, half, turned_half, False),
    Pair("angles repeated beside each other", ROPE, half, repeated_half, False),
    Pair("halves for pairs", ROPE, halves, interleaved, False),
    Pair("scores of halves for those of pairs", ROPE, both(halves, halves),
         both(interleaved, interleaved), False),
    Pair("angles of the next position", ROPE, half,
         lambda x, c, s: half(x, c.roll(1, 0), s.roll(1, 0)), False),
    Pair("rotated once", ROPE, lambda x, c, s: halves(halves(x, c, s), c, -s),
         lambda x, c, s: halves(x, c, -s), False),
    Pair("the smallest", LINES, lambda x: x.topk(3).values,
         lambda x: x.sort().values[:, :3], False),
    Pair("one that is not the largest", LINES, lambda x: x.topk(1).values,
         lambda x: x.topk(2).values[:, 1:], False),
    Pair("four of the largest", LINES, lambda x: x.topk(3).values.sum(-1),
         lambda x: x.topk(4).values.sum(-1), False),
    Pair("the upper one in the middle", LINES, lambda x: x.median(-1).values,
         lambda x: x.sort().values[:, 4], False),
    Pair("routing that is not normalised", LINES, lambda x: x.topk(2).values.softmax(-1),
         lambda x: x.softmax(-1).topk(2).values, False),
    Pair("rolled the other way", ROWS, lambda x: x.roll(3, -1).exp(),
         lambda x: torch.cat((x[:, 3:], x[:, :3]), -1).exp(), False),
    Pair("turned once", ROWS, lambda x: x.flip(-1).tanh().flip(-1), lambda x: x.flip(-1).tanh(),
         False),
    Pair("turned along the rows", "12x12", lambda x: x.flip(-1).exp(), lambda x: x.flip(0).exp(),
         False),
    Pair("padded at one end", ROWS, lambda x: F.pad(x, (1, 1)), lambda x: F.pad(x, (2, 0)), False),
    Pair("a triangle with its diagonal", "12x12", lambda x: x.tril(-1), lambda x: x.tril(), False),
    Pair("two triangles that meet", "12x12", lambda x: x * 1, lambda x: x.tril() + x.triu(),
         False),
    Pair("a choice of what is infinite", "12x12", lambda x: torch.where(
        ij(12)[1] <= ij(12)[0], x, -INF).exp(), lambda x: x.exp(), False),
]  # fmt: skip
