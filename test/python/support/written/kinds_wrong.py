"""Norms, rotations, gates, losses, slices, experts and caches, each compared with a program that is
nearly the same.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from written.attention_wrong import ATTENTION_WRONG
from written.kinds_right import ROPE, ROW, experts, rms, rope
from written.pairs import Pair

HALF = "5x12:f16"

KINDS_WRONG: list[Pair] = [
    *ATTENTION_WRONG,
    # norms
    Pair(
        "a mean of one less",
        ROW,
        lambda x: F.layer_norm(x, (12,)),
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
        False,
    ),
    Pair(
        "eps outside of the root",
        ROW,
        rms,
        lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6),
        False,
    ),
    Pair(
        "eps under a sum",
        ROW,
        rms,
        lambda x: x * torch.rsqrt((x.square().sum(-1, keepdim=True) + 1e-6) / 12.0),
        False,
    ),
    Pair("eps of another norm", ROW, rms, lambda x: rms(x, 1e-5), False),
    Pair("norm of a scaled row with eps", ROW, lambda x: rms(3.0 * x), rms, False),
    Pair(
        "a shift left out",
        "5x12 12 12 12x7",
        lambda x, g, b, w: F.layer_norm(x, (12,), g, b) @ w,
        lambda x, g, b, w: F.layer_norm(x, (12,), g) @ w + b.sum(),
        False,
    ),
    Pair(
        "a gain that is squared", "5x12 12", lambda x, g: rms(x) * g, lambda x, g: rms(x * g), False
    ),
    Pair(
        "groups beside each other",
        ROW,
        lambda x: F.group_norm(x, 3),
        lambda x: (
            F.group_norm(x.reshape(5, 3, 4).mT.reshape(5, 12), 3).reshape(5, 4, 3).mT.reshape(5, 12)
        ),
        False,
    ),
    Pair(
        "two groups for three",
        ROW,
        lambda x: F.group_norm(x, 3),
        lambda x: F.group_norm(x, 2),
        False,
    ),
    Pair(
        "moments that are not centred",
        ROW,
        lambda x: F.layer_norm(x, (12,)),
        lambda x: (
            (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        ),
        False,
    ),
    # rotations
    Pair("turned the other way", ROPE, rope, lambda x, c, s: rope(x, c, -s), False),
    Pair(
        "neighbours for halves",
        ROPE,
        rope,
        lambda x, c, s: torch.stack(
            [x[..., ::2] * c - x[..., 1::2] * s, x[..., 1::2] * c + x[..., ::2] * s], -1
        ).flatten(2),
        False,
    ),
    Pair("sine and cosine exchanged", ROPE, rope, lambda x, c, s: rope(x, s, c), False),
    Pair(
        "places of another row",
        ROPE,
        rope,
        lambda x, c, s: rope(x, c.roll(1, 0), s.roll(1, 0)),
        False,
    ),
    # gates
    Pair("another gelu", ROW, F.gelu, lambda x: F.gelu(x, approximate="tanh"), False),
    Pair("gelu by 1.702", ROW, F.gelu, lambda x: x * torch.sigmoid(1.702 * x), False),
    Pair(
        "a factor of a tangent",
        ROW,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1.0 + torch.tanh(0.79788 * (x + 0.044715 * x**3))),
        False,
    ),
    Pair(
        "up before gate",
        "5x12 12x6 12x6",
        lambda x, g, u: F.silu(x @ g) * (x @ u),
        lambda x, g, u: F.silu(x @ u) * (x @ g),
        False,
    ),
    Pair(
        "softplus with a limit",
        ROW,
        F.softplus,
        lambda x: torch.where(x > 3.0, x, F.softplus(x)),
        False,
    ),
    # losses
    Pair(
        "a log of a sum without its maximum",
        ROW,
        lambda x: x.logsumexp(-1),
        lambda x: x.exp().sum(-1).log() + x.amax(-1),
        False,
    ),
    Pair(
        "entropy without its sign",
        ROW,
        lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
        lambda x: (x.softmax(-1) * x.log_softmax(-1)).sum(-1),
        False,
    ),
    Pair(
        "divergence the other way",
        "5x12 5x12",
        lambda x, t: F.kl_div(
            x.log_softmax(-1), t.log_softmax(-1), log_target=True, reduction="sum"
        ),
        lambda x, t: F.kl_div(
            t.log_softmax(-1), x.log_softmax(-1), log_target=True, reduction="sum"
        ),
        False,
    ),
    Pair(
        "a mean by all elements",
        "5x12 5x12",
        lambda x, t: F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="batchmean"),
        lambda x, t: F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="mean"),
        False,
    ),
    # slices, tilings
    Pair(
        "padded on the other side",
        "5x13",
        lambda x: F.pad(x, (3, 2))[:, 5:14],
        lambda x: F.pad(x, (2, 3))[:, 5:14],
    ),
    Pair(
        "a part that is read twice",
        "5x13 13x6",
        lambda x, w: x @ w,
        lambda x, w: x[:, :5] @ w[:5] + x[:, 4:8] @ w[4:8] + x[:, 8:] @ w[8:],
        False,
    ),
    Pair(
        "one element of sixteen left out",
        "2x240",
        lambda x: x.sum(-1),
        lambda x: x.reshape(2, 16, 15)[..., :14].sum((1, 2)) + x[:, 14::15][:, :15].sum(-1),
        False,
    ),
    Pair(
        "tiles across",
        "2x240",
        lambda x: x.reshape(2, 16, 15).sum(-1).amax(-1),
        lambda x: x.reshape(2, 15, 16).sum(-2).amax(-1),
        False,
    ),
    # experts, caches
    Pair(
        "gates that are not normed",
        "5x6 3x6x4 3x4x6 5x3",
        experts,
        lambda x, w, u, g: sum(
            torch.sigmoid(g[:, e : e + 1]) * (F.silu(x @ w[e]) @ u[e]) for e in range(3)
        ),
        False,
    ),
    Pair(
        "gates inside of the function",
        "5x6 3x6x4 3x4x6 5x3",
        experts,
        lambda x, w, u, g: sum(
            F.silu(g.softmax(-1)[:, e, None] * (x @ w[e])) @ u[e] for e in range(3)
        ),
        False,
    ),
    Pair(
        "another expert's second product",
        "5x6 3x6x4 3x4x6 5x3",
        experts,
        lambda x, w, u, g: experts(x, w, u.roll(1, 0), g),
        False,
    ),
    Pair(
        "gates over tokens",
        "5x6 3x6x4 3x4x6 5x3",
        experts,
        lambda x, w, u, g: sum(
            g.softmax(0)[:, e, None] * (F.silu(x @ w[e]) @ u[e]) for e in range(3)
        ),
        False,
    ),
    Pair(
        "a cache by one row",
        "9x8 1x8",
        lambda c, x: torch.cat([c[:4], x, c[5:]]),
        lambda c, x: torch.cat([c[:4], x, c[4:8]]),
    ),
    # roundings
    Pair(
        "a norm in halves",
        HALF,
        lambda x: rms(x.float()).half(),
        lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
    ),
    Pair(
        "scores without their maximum",
        HALF,
        lambda x: x.float().softmax(-1).half(),
        lambda x: (x.float().exp() / x.float().exp().sum(-1, keepdim=True)).half(),
    ),
    Pair("a residual of a cast", ROW, lambda x: x - x.half().float(), lambda x: x * 0.0),
    Pair(
        "a product in halves",
        "5x12 12x7",
        lambda x, w: x @ w,
        lambda x, w: (x.half() @ w.half()).float(),
    ),
    # whole numbers
    Pair(
        "a quotient towards zero",
        "6x8:i64",
        lambda i: i // 3,
        lambda i: torch.div(i, 3, rounding_mode="trunc"),
    ),
    Pair("places within a page by one", "6x8:i64", lambda i: i // 16, lambda i: (i + 1) // 16),
]
