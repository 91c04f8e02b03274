"""Programs at the sizes of models, each compared with one that is nearly the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.large_right import (
    ATTENTION,
    COS,
    LAYERS,
    ROPE,
    SIGNS,
    SIN,
    TURNED,
    WIDE_COS,
    WIDE_SIN,
    attention,
    chosen_features,
    joined_by_a_maximum,
    linear_attention,
    linear_attention_by_scores,
    parts_of_attention,
    rotate_half,
    softmax,
    turned_halves,
    turned_whole,
)
from written.pairs import Pair


def swapped_halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([b * c + a * s, a * c - b * s], -1)


def one_sign(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c + b * s, b * c + a * s], -1)


ONE_OTHER = torch.ones(8, 96)
ONE_OTHER[5, 7] = 2.0


def rare(x):
    """Nonzero only for few numbers, which are far away."""
    return F.relu(x - 50.0) * F.relu(50.001 - x)


def chosen_until(n):
    def turned(x, c, s):
        other = torch.where(torch.arange(96) < n, -x.roll(48, -1), x.roll(48, -1))
        return x * torch.cat([c, c], -1) + other * torch.cat([s, s], -1)

    return turned


def not_rescaled(q, k, v):
    (a, b), (one, other) = parts_of_attention(q, k, v, (0, 24, 64))
    m = torch.maximum(one, other)
    first, second = torch.exp(one - m), torch.exp(other - m)
    return (a * first + b) / (first + second)


def swapped_weights(q, k, v):
    (a, b), (one, other) = parts_of_attention(q, k, v, (0, 24, 64))
    total = torch.logaddexp(one, other)
    return a * torch.exp(other - total) + b * torch.exp(one - total)


def one_key_twice(q, k, v):
    (a, _), (one, _) = parts_of_attention(q, k, v, (0, 24, 64))
    (_, b), (_, other) = parts_of_attention(q, k, v, (0, 23, 64))
    total = torch.logaddexp(one, other)
    return a * torch.exp(one - total) + b * torch.exp(other - total)


def largest_alone(q, k, v):
    """Weights by the maxima, which are not the logarithms of the sums."""
    (a, b), _ = parts_of_attention(q, k, v, (0, 24, 64))
    one, other = ((q @ x.mT * 96**-0.5).amax(-1, keepdim=True) for x in (k[:, :24], k[:, 24:]))
    total = torch.logaddexp(one, other)
    return a * torch.exp(one - total) + b * torch.exp(other - total)


LARGE_WRONG: list[Pair] = [
    Pair("swapped halves", ROPE, turned_whole, swapped_halves, False),
    Pair("turned with one sign", ROPE, turned_whole, one_sign, False),
    Pair("turned the other way", ROPE, turned_whole, lambda x, c, s: turned_halves(x, c, -s)),
    Pair(
        "halves shifted by one",
        ROPE,
        turned_whole,
        lambda x, c, s: turned_whole(x.roll(1, -1), c, s).roll(-1, -1),
        False,
    ),
    Pair("one choice more", ROPE, turned_halves, chosen_until(49), False),
    Pair("a quarter less", ROPE, turned_halves, chosen_until(24), False),
    Pair(
        "tables for the next position",
        TURNED,
        lambda x: x * WIDE_COS + rotate_half(x) * WIDE_SIN,
        lambda x: turned_halves(x, COS.roll(-1, 0), SIN),
        False,
    ),
    Pair(
        "a table without signs",
        TURNED,
        lambda x: x * WIDE_COS + x.roll(48, -1) * WIDE_SIN,
        lambda x: turned_halves(x, COS, SIN),
        False,
    ),
    # parts of softmax joined
    Pair("one part not rescaled", ATTENTION, attention, not_rescaled, False),
    Pair("weights of the other part", ATTENTION, attention, swapped_weights, False),
    Pair("one key in both parts", ATTENTION, attention, one_key_twice, False),
    Pair("one key in no part", ATTENTION, attention, joined_by_a_maximum(1, 24, 64), False),
    Pair("maxima for logarithms", ATTENTION, attention, largest_alone, False),
    # layers of softmax
    Pair(
        "the second softmax of the columns",
        "96x96 96x96",
        lambda x, w: ((x.softmax(-1)) @ w).softmax(-1),
        lambda x, w: softmax((softmax(x) @ w).mT).mT,
        False,
    ),
    Pair(
        "the second softmax of twice as much",
        LAYERS,
        lambda x, w: ((x.softmax(-1)) @ w).softmax(-1),
        lambda x, w: softmax(2.0 * (softmax(x) @ w)),
        False,
    ),
    Pair(
        "the first softmax with one column less",
        LAYERS,
        lambda x, w: ((x.softmax(-1)) @ w).softmax(-1),
        lambda x, w: softmax(softmax(x[:, :95]) @ w[:95]),
        False,
    ),
    # signs
    Pair(
        "another number at one place",
        "8x96",
        lambda x: F.relu(x) + rare(x),
        lambda x: F.relu(x) + rare(x) * ONE_OTHER,
        False,
    ),
    Pair("a sign that is 1 at 0", SIGNS, torch.abs, lambda x: torch.where(x < 0, -x, x + rare(x))),
    Pair("both signs subtracted", SIGNS, torch.abs, lambda x: F.relu(x) - F.relu(-x), False),
    Pair("the sign of the next", SIGNS, torch.abs, lambda x: x * torch.sign(x.roll(1, -1)), False),
    Pair("a sign for a number", SIGNS, torch.abs, lambda x: torch.sign(x) * torch.sign(x), False),
    Pair(
        "features that are turned",
        ATTENTION,
        lambda q, k, v: linear_attention(lambda x: F.elu(x) + 1, q, k, v),
        lambda q, k, v: linear_attention_by_scores(lambda x: chosen_features(-x), q, k, v),
        False,
    ),
]
