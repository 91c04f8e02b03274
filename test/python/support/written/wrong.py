"""Programs that are nearly the same; none of them may be accepted."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from written.pairs import Pair
from written.right import (
    INF,
    attention,
    chunks,
    gelu_tanh,
    grouped_queries,
    joined_attention,
    logsumexp,
    masked_mean,
    masked_softmax,
    parts,
    positions,
    rope_halves,
    rope_hf,
    rope_interleaved,
    with_sink,
)


def rms(x, eps=1e-6, dim=-1):
    return x * torch.rsqrt(x.pow(2).mean(dim, keepdim=True) + eps)


def joined_wrongly(q, k, v):
    (a, l1), (b, l2) = parts(q, k[:, :5], v[:, :5]), parts(q, k[:, 5:], v[:, 5:])
    m = torch.maximum(l1, l2)
    w1, w2 = torch.exp(l1 - m), torch.exp(l2 - m)
    return (a * w2 + b * w1) / (w1 + w2)


def joined_by_halves(q, k, v):
    (a, _), (b, _) = parts(q, k[:, :6], v[:, :6]), parts(q, k[:, 6:], v[:, 6:])
    return (a + b) / 2


def not_rescaled(q, k, v):
    m = l = o = None
    for i in range(0, 12, 4):
        s = q @ k[:, i : i + 4].transpose(-1, -2) * q.shape[-1] ** -0.5
        now = s.amax(-1, keepdim=True)
        if m is None:
            p = torch.exp(s - now)
            l, o = p.sum(-1, keepdim=True), p @ v[:, i : i + 4]
        else:
            now = torch.maximum(m, now)
            p = torch.exp(s - now)
            l = l * torch.exp(m - now) + p.sum(-1, keepdim=True)
            o = o + p @ v[:, i : i + 4]
        m = now
    return o / l


def one_pass(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)


def heads(x, order):
    return x.reshape(2, 6, 2, 4).permute(*order).reshape(2, 6, 8)


def sinkless(x, sink):
    return torch.cat((x, sink[:, None]), -1)[:, :-1].softmax(-1) + 0 * sink[:, None]


WRONG: list[Pair] = [
    Pair("epsilon of another size", "6x16", lambda x: rms(x, 1e-6), lambda x: rms(x, 1e-5), False),
    Pair("epsilon outside of the root", "6x16", rms,
         lambda x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6), False),
    Pair("epsilon within the mean", "6x16", rms,
         lambda x: x * torch.rsqrt((x * x + 16e-6).mean(-1, keepdim=True)), False),
    Pair("epsilon left out", "6x16", rms,
         lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True))),
    Pair("epsilon as a bound", "6x16", lambda x: F.normalize(x, dim=-1, eps=1e-3),
         lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-3), False),
    Pair("sum for mean", "6x16", rms,
         lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6), False),
    Pair("variance of a sample", "6x16", lambda x: F.layer_norm(x, (16,)),
         lambda x: (x - x.mean(-1, keepdim=True))
         * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5), False),
    Pair("mean not taken off", "6x16", lambda x: F.layer_norm(x, (16,)), lambda x: rms(x, 1e-5),
         False),
    Pair("norm of the other axis", "8x8", rms, lambda x: rms(x, dim=0), False),
    Pair("gain before the norm", "6x16 16", lambda x, g: rms(x) * g, lambda x, g: rms(x * g),
         False),
    Pair("gain of one more", "6x16 16", lambda x, g: rms(x) * g, lambda x, g: rms(x) * (1 + g),
         False),
    Pair("groups of another size", "2x12x4", lambda x: F.group_norm(x, 3),
         lambda x: F.group_norm(x, 4), False),
    Pair("groups of neighbours", "2x4x6", lambda x: F.group_norm(x, 2),
         lambda x: F.group_norm(x.reshape(2, 2, 2, 6).transpose(1, 2).reshape(2, 4, 6), 2)
         .reshape(2, 2, 2, 6).transpose(1, 2).reshape(2, 4, 6), False),
    Pair("group norm as layer norm", "2x4x6", lambda x: F.group_norm(x, 1),
         lambda x: F.layer_norm(x, (6,)), False),
    Pair("one pass", "6x16", lambda x: F.layer_norm(x, (16,)), one_pass),
    Pair("softmax of the other axis", "8x8", lambda x: x.softmax(-1), lambda x: x.softmax(0),
         False),
    Pair("softmax of parts", "6x12", lambda x: x.softmax(-1),
         lambda x: torch.cat((x[:, :6].softmax(-1), x[:, 6:].softmax(-1)), -1), False),
    Pair("softmax without a maximum", "6x12", lambda x: x.softmax(-1),
         lambda x: x.exp() / x.exp().sum(-1, keepdim=True)),
    Pair("logsumexp without a maximum", "6x12", logsumexp,
         lambda x: x.exp().sum(-1).log()),
    Pair("maximum of a part", "6x12", lambda x: x.softmax(-1),
         lambda x: (lambda e: e / e.sum(-1, keepdim=True))(
             (x - x[:, :6].amax(-1, keepdim=True)).exp())),
    Pair("maximum at least zero", "6x12", lambda x: x.softmax(-1),
         lambda x: (lambda e: e / e.sum(-1, keepdim=True))(
             (x - x.amax(-1, keepdim=True).clamp(min=0)).exp())),
    Pair("maximum of everything", "6x12", lambda x: x.softmax(-1),
         lambda x: (lambda e: e / e.sum(-1, keepdim=True))((x - x.max()).exp())),
    Pair("weights exchanged at the join", "2x4x8 2x12x8 2x12x8", joined_attention, joined_wrongly,
         False),
    Pair("joined by halves", "2x4x8 2x12x8 2x12x8", attention, joined_by_halves, False),
    Pair("sum not rescaled", "2x4x8 2x12x8 2x12x8", attention, not_rescaled, False),
    Pair("scale of the size", "2x4x8 2x12x8 2x12x8", attention,
         lambda q, k, v: attention(q, k, v, 1 / 8), False),
    Pair("scale twice", "2x4x8 2x12x8 2x12x8", attention,
         lambda q, k, v: attention(q * 8**-0.5, k, v), False),
    Pair("scale rounded", "2x4x8 2x12x8 2x12x8", attention,
         lambda q, k, v: attention(q, k, v, 0.35355), False),
    Pair("log2 e rounded", "6x12", lambda x: x.exp(), lambda x: torch.exp2(x * 1.4427), False),
    Pair("keys and values exchanged", "2x4x8 2x12x8 2x12x8", attention,
         lambda q, k, v: attention(q, v, k), False),
    Pair("heads repeated in turn", "4x5x8 2x6x8 2x6x8", grouped_queries,
         lambda q, k, v: attention(q, k.repeat(2, 1, 1), v.repeat(2, 1, 1)), False),
    Pair("heads and tokens exchanged", "2x6x8", lambda x: heads(x, (0, 2, 1, 3)).softmax(-1),
         lambda x: heads(x, (0, 1, 2, 3)).softmax(-1), False),
    Pair("heads within the width", "2x6x8",
         lambda x: x.reshape(2, 6, 2, 4).transpose(1, 2).softmax(-1),
         lambda x: x.reshape(2, 6, 4, 2).permute(0, 3, 1, 2).softmax(-1), False),
    Pair("a sink left out", "6x12 6", with_sink, sinkless, False),
    Pair("tanh for erf", "6x12", F.gelu, gelu_tanh, False),
    Pair("gelu's constant rounded", "6x12", gelu_tanh,
         lambda x: 0.5 * x * (1 + torch.tanh(0.79788 * (x + 0.044715 * x**3))), False),
    Pair("gelu's other constant rounded", "6x12", gelu_tanh,
         lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.0447 * x**3))), False),
    Pair("quick gelu", "6x12", F.gelu, lambda x: x * torch.sigmoid(1.702 * x), False),
    Pair("silu twice as steep", "6x12", F.silu, lambda x: x * torch.sigmoid(2 * x), False),
    Pair("gate and up exchanged", "4x8 8x12", lambda x, w: F.silu((x @ w)[:, :6]) * (x @ w)[:, 6:],
         lambda x, w: (x @ w)[:, :6] * F.silu((x @ w)[:, 6:]), False),
    Pair("clamp a little further", "6x12", lambda x: x.clamp(-1, 1), lambda x: x.clamp(-1, 1.001),
         False),
    Pair("clamp with bounds exchanged", "6x12",
         lambda x: torch.minimum(torch.maximum(x, torch.tensor(2.0)), torch.tensor(1.0)),
         lambda x: torch.maximum(torch.minimum(x, torch.tensor(1.0)), torch.tensor(2.0)), False),
    Pair("log of a softmax", "6x12", lambda x: x - logsumexp(x)[:, None],
         lambda x: x.softmax(-1).log()),
    Pair("leaky at another slope", "6x12", lambda x: torch.maximum(x, 0.01 * x),
         lambda x: torch.maximum(x, 0.1 * x), False),
    Pair("leaky above one", "6x12", lambda x: torch.where(x > 0, x, 2 * x),
         lambda x: torch.maximum(x, 2 * x), False),
    Pair("rounding left out", "6x12", lambda x: torch.floor(x * 4) / 4, lambda x: x + 0, False),
    Pair("rounded elsewhere", "6x12", lambda x: torch.floor(x * 4) / 4,
         lambda x: torch.floor(x * 4 + 0.5) / 4, False),
    Pair("relu of a magnitude", "6x12", F.relu, lambda x: F.relu(x.abs()), False),
    Pair("root of a square", "6x12", lambda x: x + 0, lambda x: torch.sqrt(x * x), False),
    Pair("rotary turned back", "3x5x8 5x4 5x4", rope_hf, lambda x, c, s: rope_hf(x, c, -s), False),
    Pair("rotary, the other layout", "3x5x8 5x4 5x4", rope_halves, rope_interleaved, False),
    Pair("rotary, halves exchanged", "3x5x8 5x4 5x4", rope_hf,
         lambda x, c, s: rope_hf(torch.cat((x[..., 4:], x[..., :4]), -1), c, s), False),
    Pair("rotary, sine and cosine exchanged", "3x5x8 5x4 5x4", rope_hf,
         lambda x, c, s: rope_hf(x, s, c), False),
    Pair("causal without itself", "12x12", masked_softmax(lambda i, j: j <= i),
         masked_softmax(lambda i, j: (j < i) | (i < 1)), False),
    Pair("causal of the next", "12x12", masked_softmax(lambda i, j: j <= i),
         masked_softmax(lambda i, j: j <= i + 1), False),
    Pair("causal, axes exchanged", "12x12", masked_softmax(lambda i, j: j <= i),
         masked_softmax(lambda i, j: i <= j), False),
    Pair("window of one more", "12x12", masked_softmax(lambda i, j: (j <= i) & (i - j < 4)),
         masked_softmax(lambda i, j: (j <= i) & (i - j <= 4)), False),
    Pair("window moved", "12x12", masked_softmax(lambda i, j: (j <= i) & (i - j < 4)),
         masked_softmax(lambda i, j: (j <= i + 1) & (i - j < 3)), False),
    Pair("window or causal", "12x12", masked_softmax(lambda i, j: (j <= i) & (i - j < 4)),
         masked_softmax(lambda i, j: (j <= i) | (i - j < 4)), False),
    Pair("prefix of one more", "12x12", masked_softmax(lambda i, j: (j <= i) | (j < 3)),
         masked_softmax(lambda i, j: (j <= i) | (j <= 3)), False),
    Pair("blocks by what is left", "12x12", masked_softmax(lambda i, j: i // 4 == j // 4),
         masked_softmax(lambda i, j: i % 4 == j % 4), False),
    Pair("masked afterwards", "12x12", masked_softmax(lambda i, j: j <= i),
         lambda x: x.softmax(-1) * (positions(12)[1] <= positions(12)[0]), False),
    Pair("zeros for minus infinity", "12x12", masked_softmax(lambda i, j: j <= i),
         lambda x: x.masked_fill(positions(12)[1] > positions(12)[0], 0.0).softmax(-1), False),
    Pair("a small mask", "12x12", masked_softmax(lambda i, j: j <= i),
         lambda x: x.masked_fill(positions(12)[1] > positions(12)[0], -20.0).softmax(-1), False),
    Pair("mean over what is masked", "2x6x4 2x6", masked_mean,
         lambda h, m: (h * m[..., None]).sum(1) / 6 + 0 * m.sum(1, keepdim=True), False),
    Pair("mask not in the sum", "2x6x4 2x6", masked_mean,
         lambda h, m: h.sum(1) / m.sum(1, keepdim=True).clamp(min=1e-9), False),
    Pair("clamp for a sum", "2x6x4 2x6", masked_mean,
         lambda h, m: (h * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1e-3), False),
    Pair("fifteen of sixteen tiles", "4x240 240x6", lambda x, w: x @ w,
         lambda x, w: sum(x[:, 15 * i : 15 * i + 15] @ w[15 * i : 15 * i + 15] for i in range(15)),
         False),
    Pair("tiles one off", "4x240 240x6", lambda x, w: chunks(x, w, 16),
         lambda x, w: sum(x[:, 15 * i : 15 * i + 15] @ w[15 * i : 15 * i + 15]
                          for i in (*range(15), 14)), False),
    Pair("cut one further", "6x12 12x4", lambda x, w: x[:, :5] @ w[:5],
         lambda x, w: x[:, :6] @ w[:6], False),
    Pair("halves exchanged", "6x12", lambda x: torch.cat((x[:, :6].exp(), x[:, 6:]), -1),
         lambda x: torch.cat((x[:, 6:], x[:, :6].exp()), -1), False),
    Pair("rolled by one", "6x12", lambda x: x.exp(), lambda x: x.roll(1, -1).exp(), False),
    Pair("outputs exchanged", "6x12", lambda x: (x.exp(), x.tanh()),
         lambda x: (x.tanh(), x.exp()), False),
    Pair("products in another order", "8x8 8x8", lambda a, b: a @ b, lambda a, b: b @ a, False),
    Pair("a transposed weight", "4x8 8x8", lambda x, w: x @ w, lambda x, w: x @ w.t(), False),
    Pair("a cast left out", "6x12", lambda x: x - x.half().float(), lambda x: x * 0),
    Pair("a cast to bf16 left out", "6x12", lambda x: x.to(torch.bfloat16).float(),
         lambda x: x + 0),
    Pair("a large number added and taken off", "6x12", lambda x: (x + 12582912.0) - 12582912.0,
         lambda x: x + 0),
    Pair("nothing times a number", "6x12", lambda x: x * 0, lambda x: torch.zeros(6, 12)),
    Pair("a number less itself", "6x12", lambda x: x - x + 1, lambda x: torch.ones(6, 12)),
    Pair("undefined at zero", "6x12 6x12", lambda x, y: x * y, lambda x, y: (x * x * y) / x),
    Pair("undefined for rows of zeros", "6x8 8x4", lambda x, w: F.relu(x) @ w,
         lambda x, w: (lambda y: (y / y.sum(-1, keepdim=True)) @ w * y.sum(-1, keepdim=True))(
             F.relu(x))),
    Pair("undefined below", "6x12", lambda x: x + 0, lambda x: x + 0 * torch.sqrt(x + 1000)),
    Pair("minus infinity less minus infinity", "6x12", lambda x: x.masked_fill(x > 1, -INF).exp(),
         lambda x: x.masked_fill(x > 1, -INF).exp() + 0 * x.masked_fill(x > 1, -INF)),
    Pair("squares in f16", "6x16:f16", lambda x: rms(x.float(), 1e-5).half(),
         lambda x: (x.float()
                    * torch.rsqrt(x.square().mean(-1, keepdim=True).float() + 1e-5)).half()),
    Pair("squares of differences written out", "6x8 6x8", lambda a, b: (a - b).square().sum(-1),
         lambda a, b: a.square().sum(-1) + b.square().sum(-1) - 2 * (a * b).sum(-1)),
]  # fmt: skip
