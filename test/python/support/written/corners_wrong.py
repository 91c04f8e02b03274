"""Corner cases that are nearly the same: different ties, rounding of whole numbers, rows in which
everything is masked, NaN, and tables in which one element differs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.corners_right import (
    CLASSES,
    GAIN,
    INF,
    MASKED,
    ONE,
    TABLE,
    THREE,
    TWO,
    WHOLE,
    as_pairs,
    convolved,
    grouped,
    joined_moments,
    line,
    linear_attention,
    moments_of_both,
    normed,
    recurrence,
    repeated,
    turned,
)
from written.pairs import Pair

LOWEST = torch.finfo(torch.float32).min
NEARLY = TABLE.clone()
NEARLY[3, 5] += 2.0**-22
LENGTHS = "3x10x4 3:i64"


def softmax_of_seen(x, m, value=-INF):
    return x.masked_fill(~m, value).softmax(-1)


def joined_without_means(x, y):
    n, m = x.shape[-1], y.shape[-1]
    mean = (n * x.mean(-1) + m * y.mean(-1)) / (n + m)
    return mean, (n * x.var(-1, correction=0) + m * y.var(-1, correction=0)) / (n + m)


def with_the_last_state(q, k, v):
    states = (k[..., :, None] * v[..., None, :]).sum(1, keepdim=True).expand(2, 6, 4, 4)
    return (q[..., None, :] @ states)[..., 0, :]


def one_power_more(x, a):
    return torch.stack(
        [sum(a[:, 0] ** (t - s + 1) * x[:, s] for s in range(t + 1)) for t in range(4)], 1
    )


def shifted_by_two(x, w):
    p = F.pad(x, (2, 0))
    return sum(torch.einsum("bil,oi->bol", p[..., k : k + 7], w[..., k]) for k in range(3))


def turned_window(x, w):
    return convolved(x, w.flip(-1))


CORNERS_WRONG: list[Pair] = [
    # whole numbers
    Pair(
        "cut off for rounded down",
        WHOLE,
        lambda i: i // 3,
        lambda i: torch.div(i, 3, rounding_mode="trunc"),
    ),
    Pair("rest of another sign", WHOLE, lambda i: i % 3, lambda i: torch.fmod(i, 3)),
    Pair("rounded up by one more", WHOLE, lambda i: -((-i) // 3), lambda i: (i + 3) // 3),
    Pair("rest, then quotient", WHOLE, lambda i: (i // 4) % 3, lambda i: (i % 3) // 4),
    Pair("quotient before the product", WHOLE, lambda i: (i * 3) // 2, lambda i: (i // 2) * 3),
    Pair("magnitude of a rest", WHOLE, lambda i: i % 5, lambda i: i.abs() % 5),
    Pair(
        "equal as f32",
        "6x8:i64 6x8:i64",
        lambda i, j: (i == j).float(),
        lambda i, j: (i.float() == j.float()).float(),
    ),
    Pair("whole numbers through f32", WHOLE, lambda i: i * 1, lambda i: i.float().long()),
    # small results of functions
    Pair("small sigmoids as one less large ones", ONE, torch.sigmoid, lambda x: 1 - (-x).sigmoid()),
    Pair(
        "small sigmoids by a tangent", ONE, torch.sigmoid, lambda x: 0.5 + 0.5 * torch.tanh(x / 2)
    ),
    Pair("small gates as one less large ones", ONE, F.silu, lambda x: x * (1 - (-x).sigmoid())),
    Pair(
        "softplus without log1p",
        ONE,
        F.softplus,
        lambda x: F.relu(x) + (1 + (-x.abs()).exp()).log(),
    ),
    Pair(
        "slope of a sigmoid where it is flat",
        ONE,
        lambda x: x.sigmoid() * (-x).sigmoid(),
        lambda x: x.sigmoid() * (1 - x.sigmoid()),
    ),
    # ties
    Pair("last of the largest", ONE, lambda x: x.argmax(-1), lambda x: 11 - x.flip(-1).argmax(-1)),
    Pair(
        "last of the largest by places",
        ONE,
        lambda x: x.argmax(-1),
        lambda x: torch.where(x == x.amax(-1, keepdim=True), line(12), -1).amax(-1),
    ),
    Pair(
        "last of the largest of whole numbers",
        WHOLE,
        lambda i: i.argmax(-1),
        lambda i: 7 - i.flip(-1).argmax(-1),
    ),
    Pair(
        "largest of what rounds to the same",
        ONE,
        lambda x: x.topk(2).indices,
        lambda x: x.softmax(-1).topk(2).indices,
    ),
    Pair(
        "strictly below for at most",
        TWO,
        lambda x, y: (x <= y).float(),
        lambda x, y: (x < y).float(),
    ),
    Pair("which is smallest", ONE, lambda x: x.argmin(-1), lambda x: (-x).argmin(-1)),
    Pair("rank for order", ONE, lambda x: x.argsort(-1).argsort(-1), lambda x: x.argsort(-1)),
    Pair(
        "rank with ties above",
        ONE,
        lambda x: (x[:, None] < x[..., None]).sum(-1),
        lambda x: (x[:, None] <= x[..., None]).sum(-1) - 1,
    ),
    Pair(
        "largest of magnitudes",
        ONE,
        lambda x: x.abs().topk(2).values,
        lambda x: x.topk(2).values.abs(),
    ),
    Pair(
        "largest of the negatives",
        ONE,
        lambda x: (-x).topk(3).values,
        lambda x: -(x.topk(3).values),
    ),
    # nothing is visible
    Pair(
        "nothing seen is no number",
        MASKED,
        lambda x, m: torch.where(m.any(-1, keepdim=True), softmax_of_seen(x, m), 0.0),
        softmax_of_seen,
    ),
    Pair(
        "the lowest number for minus infinity",
        MASKED,
        lambda x, m: softmax_of_seen(x, m, LOWEST),
        softmax_of_seen,
    ),
    Pair(
        "minus infinity for the lowest number, added",
        MASKED,
        lambda x, m: (x + LOWEST * ~m).softmax(-1),
        lambda x, m: (x + torch.zeros(6, 12).masked_fill(~m, -INF)).softmax(-1),
    ),
    Pair(
        "a large number for minus infinity",
        MASKED,
        lambda x, m: x.masked_fill(~m, -INF).amax(-1),
        lambda x, m: x.masked_fill(~m, -1e9).amax(-1),
    ),
    Pair(
        "logarithm of nothing",
        MASKED,
        lambda x, m: x.masked_fill(~m, -INF).logsumexp(-1),
        lambda x, m: (lambda s, t: t[:, 0] + (s - t).exp().sum(-1).log())(
            x.masked_fill(~m, -INF), x.masked_fill(~m, -INF).amax(-1, keepdim=True)
        ),
    ),
    Pair("masked after its sum", MASKED, softmax_of_seen, lambda x, m: x.softmax(-1) * m),
    Pair(
        "weights that vanish",
        MASKED,
        softmax_of_seen,
        lambda x, m: (lambda p: p / p.sum(-1, keepdim=True))(x.softmax(-1) * m),
    ),
    Pair(
        "mean of nothing as zero",
        MASKED,
        lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=1),
        lambda x, m: (x * m).sum(-1) / m.sum(-1),
    ),
    Pair(
        "mean with a little more",
        MASKED,
        lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=1),
        lambda x, m: (x * m).sum(-1) / (m.sum(-1) + 1e-3),
    ),
    Pair("any for all", MASKED, lambda x, m: x[:, 0] * m.all(-1), lambda x, m: x[:, 0] * m.any(-1)),
    # NaN
    Pair("no numbers left out of a sum", ONE, lambda x: x.sum(-1), lambda x: x.nansum(-1)),
    Pair("no numbers as zero", ONE, lambda x: x * 1.0, lambda x: x.nan_to_num() * 1.0),
    Pair("another number for no number", ONE, torch.nan_to_num, lambda x: x.nan_to_num(nan=0.2)),
    Pair("the other one of a maximum", TWO, torch.maximum, torch.fmax),
    Pair(
        "a limit by choices",
        ONE,
        lambda x: x.clamp(-1.0, 1.0),
        lambda x: torch.where(x > 1.0, 1.0, torch.where(x > -1.0, x, -1.0)),
    ),
    Pair("nothing is no number", ONE, lambda x: x.isnan().float(), lambda x: torch.zeros(6, 12)),
    Pair("a square is a number", ONE, lambda x: (x * x >= 0).float(), lambda x: torch.ones(6, 12)),
    Pair(
        "a sign of no number",
        ONE,
        lambda x: torch.where(x < 0, -x, x),
        lambda x: torch.where(x >= 0, x, torch.where(x < 0, -x, 0.0)),
    ),
    # definedness
    Pair("divided and multiplied", TWO, lambda x, y: x * 1.0, lambda x, y: x / y * y),
    Pair("a reciprocal twice", ONE, lambda x: x * 1.0, lambda x: 1.0 / (1.0 / x)),
    Pair("exponential of a logarithm", ONE, lambda x: x * 1.0, lambda x: torch.exp(torch.log(x))),
    Pair("logarithm of an exponential", ONE, lambda x: x * 1.0, lambda x: torch.log(torch.exp(x))),
    Pair("a reciprocal by roots", ONE, lambda x: 1.0 / x, lambda x: torch.rsqrt(x) ** 2),
    Pair("a cube's root", ONE, lambda x: x * 1.0, lambda x: (x**3) ** (1.0 / 3.0)),
    Pair(
        "logarithm of what is kept",
        ONE,
        lambda x: torch.where(x > 0, torch.log(x), 0.0),
        lambda x: torch.log(torch.where(x > 0, x, 0.0)),
    ),
    Pair("an angle of a sine", ONE, lambda x: x * 1.0, lambda x: torch.asin(torch.sin(x))),
    Pair(
        "a quotient of exponentials",
        TWO,
        lambda x, y: torch.exp(x - y),
        lambda x, y: torch.exp(x) / torch.exp(y),
    ),
    Pair(
        "a quotient of sines", ONE, torch.tan, lambda x: torch.sin(x) / torch.cos(x) + 1e-3, False
    ),
    # losses
    Pair(
        "loss of the class before",
        CLASSES,
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda x, t: x.logsumexp(-1) - x.gather(1, (t - 1).clamp(min=0)[:, None])[:, 0],
    ),
    Pair(
        "smoothing over the others",
        CLASSES,
        lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1),
        lambda x, t: (
            x.logsumexp(-1)
            - 0.9 * x.gather(1, t[:, None])[:, 0]
            - 0.1 / 11 * (x.sum(-1) - x.gather(1, t[:, None])[:, 0])
        ),
    ),
    Pair(
        "loss of one that is ignored",
        CLASSES,
        lambda x, t: F.cross_entropy(x, t, reduction="none", ignore_index=3),
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
    ),
    Pair(
        "derivative without its mean",
        TWO,
        lambda x, g: (p := x.softmax(-1)) * (g - (g * p).sum(-1, keepdim=True)),
        lambda x, g: (p := x.softmax(-1)) * (g - (g * p).mean(-1, keepdim=True)),
    ),
    # functions
    Pair("the other half is the gate", ONE, F.glu, lambda x: x[:, 6:] * torch.sigmoid(x[:, :6])),
    Pair("hard gate of two", ONE, F.hardswish, lambda x: x * (x + 2.0).clamp(0.0, 6.0) / 6.0),
    Pair(
        "shrunk by a threshold", ONE, lambda x: F.softshrink(x, 0.5), lambda x: F.hardshrink(x, 0.5)
    ),
    Pair("celu for elu", ONE, lambda x: F.celu(x, 2.0), lambda x: F.elu(x, 2.0)),
    Pair("errors without a root", ONE, F.gelu, lambda x: 0.5 * x * (1.0 + torch.erf(x / 2.0))),
    # norms
    Pair("moments without distance", "6x5 6x7", moments_of_both, joined_without_means),
    Pair(
        "variances that are added",
        "6x5 6x7",
        moments_of_both,
        lambda x, y: (joined_moments(x, y)[0], 0.5 * (x.var(-1) + y.var(-1))),
    ),
    Pair(
        "shift before the gain",
        "6x12 12 12",
        lambda x, w, b: F.layer_norm(x, (12,), w, b),
        lambda x, w, b: (normed(x) + b) * w,
    ),
    Pair(
        "norm of channels with another eps",
        "2x6x5 6 6",
        lambda x, m, v: F.batch_norm(x, m, v * v, eps=1e-3),
        lambda x, m, v: F.batch_norm(x, m, v * v, eps=1e-5),
    ),
    # products, running sums
    Pair("a window that looks back", "2x3x7 4x3x3", convolved, shifted_by_two),
    Pair("a window turned round", "2x3x7 4x3x3", convolved, turned_window),
    Pair(
        "groups of other queries",
        "4x5x8 2x6x8 2x6x8",
        repeated,
        lambda q, k, v: grouped(q.reshape(2, 2, 5, 8).transpose(0, 1).reshape(4, 5, 8), k, v),
    ),
    Pair("states of all", "2x6x4 2x6x4 2x6x4", linear_attention, with_the_last_state),
    Pair("a recurrence by one power more", "6x4 6x4", recurrence, one_power_more),
    Pair(
        "largest so far from the end",
        ONE,
        lambda x: x.cummax(-1).values,
        lambda x: x.flip(-1).cummax(-1).values.flip(-1),
    ),
    Pair(
        "sum so far of the one before",
        ONE,
        lambda x: x.cumsum(-1),
        lambda x: F.pad(x.cumsum(-1), (1, 0))[:, :-1],
    ),
    Pair(
        "exponentials summed to the end",
        ONE,
        lambda x: x.logcumsumexp(-1),
        lambda x: x.flip(-1).logcumsumexp(-1).flip(-1),
    ),
    Pair(
        "product so far of the other axis", "8x8", lambda x: x.cumprod(-1), lambda x: x.cumprod(0)
    ),
    Pair(
        "places from none",
        "6x12:b 12x4",
        lambda m, t: t[(m.cumsum(-1) - 1).clamp(min=0)],
        lambda m, t: t[(m.cumsum(-1) - m.long()).clamp(min=0)],
    ),
    # places
    Pair(
        "rolled the other way by places",
        ONE,
        lambda x: x[:, (line(12) + 3) % 12],
        lambda x: x.roll(3, 1),
    ),
    Pair(
        "rows for columns", "8x8 8x8:i64", lambda x, i: x.gather(1, i), lambda x, i: x.gather(0, i)
    ),
    Pair(
        "copied for added",
        "6x4 6:i64",
        lambda x, i: torch.zeros(5, 4).index_add(0, i, x),
        lambda x, i: torch.zeros(5, 4).index_copy(0, i, x),
    ),
    Pair(
        "with what is there",
        "5x4 7x4 7x4:i64",
        lambda x, s, i: x.scatter_reduce(0, i, s, "amax", include_self=True),
        lambda x, s, i: x.scatter_reduce(0, i, s, "amax", include_self=False),
    ),
    Pair(
        "mean of what is added",
        "5x4 7x4 7x4:i64",
        lambda x, s, i: x.scatter_reduce(0, i, s, "mean"),
        lambda x, s, i: x.scatter_reduce(0, i, s, "sum") / 2.0,
    ),
    Pair(
        "there and back by any places",
        "12x4 12:i64",
        lambda x, i: x * 1.0,
        lambda x, i: x[i][i.argsort()],
    ),
    Pair(
        "the last one of none",
        LENGTHS,
        lambda x, n: x[line(3), n - 1],
        lambda x, n: (x * (line(10) == n[:, None] - 1)[..., None]).sum(1),
    ),
    Pair(
        "segments that begin later",
        "12:i64 6x4",
        lambda o, t: t[(line(12)[:, None] >= o[None]).sum(-1) % 6],
        lambda o, t: t[(line(12)[:, None] > o[None]).sum(-1) % 6],
    ),
    Pair(
        "slopes of distances on both sides",
        "2x12x12",
        lambda s: (s - 0.5 * (line(12)[:, None] - line(12)).abs()).softmax(-1),
        lambda s: (s + 0.5 * line(12)).softmax(-1),
    ),
    Pair("pairs turned the other way", "6x12 6x6 6x6", as_pairs, lambda x, c, s: turned(x, c, -s)),
    # tensors that programs hold
    Pair("one element of a table", ONE, lambda x: x @ TABLE, lambda x: x @ NEARLY),
    Pair(
        "a table of which rows are moved",
        ONE,
        lambda x: x @ TABLE,
        lambda x: x @ TABLE.roll(1, 0).contiguous(),
    ),
    Pair(
        "a gain of another order",
        ONE,
        lambda x: (x * GAIN) @ TABLE,
        lambda x: (x * GAIN.flip(0)) @ TABLE,
    ),
    Pair(
        "a scale of the next number",
        ONE,
        lambda x: (x * 0.125).softmax(-1),
        lambda x: (x * 0.12500001).softmax(-1),
    ),
    Pair(
        "an average of three by 0.333",
        THREE,
        lambda a, b, c: (a + b + c) / 3.0,
        lambda a, b, c: (a + b + c) * 0.333,
    ),
]
