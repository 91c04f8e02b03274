"""Norms and losses of rows in Triton: rows in registers, or read twice if that is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import triton
import triton.language as tl
from triton_tuned import Config, Tensor, Tuned, grid, how

WHOLE = 65536
"""The longest row that is held in registers."""


@triton.jit
def _scaled(v, mean, rstd, gain, bias, c, row, n, points, groups, GAIN: tl.constexpr,
            BIAS: tl.constexpr, inside):  # fmt: skip
    """``points`` neighbours share a gain and a bias, of which ``groups`` rows have their own."""
    y = (v - mean) * rstd
    at = (row % groups) * (n // points) + c // points
    if GAIN:
        y = y * tl.load(gain + at, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        y = y + tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    return y


@triton.jit
def _norm(
    x, gain, bias, out, ids, copy, n, eps, points, groups,
    BLOCK: tl.constexpr, WHOLE: tl.constexpr, CENTRED: tl.constexpr, GAIN: tl.constexpr,
    BIAS: tl.constexpr, LOOKED_UP: tl.constexpr,
):  # fmt: skip
    """A norm of each row; with ``LOOKED_UP``, of the row of a table, which is copied too."""
    row = tl.program_id(0)
    source = x + row.to(tl.int64) * n
    if LOOKED_UP:
        source = x + tl.load(ids + row).to(tl.int64) * n
    target = out + row.to(tl.int64) * n
    kind = out.dtype.element_ty
    if WHOLE:
        c = tl.arange(0, BLOCK)
        inside = c < n
        raw = tl.load(source + c, mask=inside, other=0.0)
        v = raw.to(tl.float32)
        mean = 0.0
        if CENTRED:
            mean = tl.sum(v, 0) / n
        away = tl.where(inside, v - mean, 0.0)
        rstd = tl.rsqrt(tl.sum(away * away, 0) / n + eps)
        y = _scaled(v, mean, rstd, gain, bias, c, row, n, points, groups, GAIN, BIAS, inside)
        tl.store(target + c, y.to(kind), mask=inside)
        if LOOKED_UP:
            tl.store(copy + row.to(tl.int64) * n + c, raw, mask=inside)
    else:
        first = tl.zeros((BLOCK,), tl.float32)
        second = tl.zeros((BLOCK,), tl.float32)
        for at in tl.range(0, n, BLOCK):
            c = at + tl.arange(0, BLOCK)
            v = tl.load(source + c, mask=c < n, other=0.0).to(tl.float32)
            first += v
            second += v * v
        mean = 0.0
        if CENTRED:
            mean = tl.sum(first, 0) / n
        rstd = tl.rsqrt(tl.sum(second, 0) / n - mean * mean + eps)
        for at in tl.range(0, n, BLOCK):
            c = at + tl.arange(0, BLOCK)
            inside = c < n
            v = tl.load(source + c, mask=inside, other=0.0).to(tl.float32)
            y = _scaled(v, mean, rstd, gain, bias, c, row, n, points, groups, GAIN, BIAS, inside)
            tl.store(target + c, y.to(kind), mask=inside)


def row_configs(n: int) -> Iterator[Config]:
    """Whole rows if registers hold them, and blocks of a row."""
    size = triton.next_power_of_2(n)
    if size <= WHOLE:
        yield from grid(
            BLOCK=[size], WHOLE=[1], warps=[w for w in (4, 8, 16, 32) if 32 * w <= size]
        )
    if n > 2048:
        yield from grid(BLOCK=[2048, 4096, 8192, 16384], WHOLE=[0], warps=[8, 16, 32])


def normed(
    x: Tensor, gain: Tensor, bias: Tensor | None, centred: bool, eps: float, config: Config
) -> Tensor:
    """Rows of ``x`` after a norm with a gain, and a bias if it is given."""
    out, n = torch.empty_like(x), x.shape[-1]
    _norm[(x.numel() // n,)](
        x, gain, gain if bias is None else bias, out, x, x, n, eps, 1, 1, CENTRED=centred,
        GAIN=True, BIAS=bias is not None, LOOKED_UP=False, **how(config),
    )  # fmt: skip
    return out


def norm(centred: bool, eps: float) -> Tuned:
    """``(x, gain)``, or ``(x, gain, bias)``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, gain, *bias = inputs
        return normed(x, gain, bias[0] if bias else None, centred, eps, config)

    return Tuned(lambda inputs: row_configs(inputs[0].shape[-1]), launch)


def group_norm(groups: int, eps: float) -> Tuned:
    """``x (batch, channels, points)``, with a gain and a bias for each channel."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, gain, bias = inputs
        batch, channels, points = x.shape
        out, n = torch.empty_like(x), channels // groups * points
        _norm[(batch * groups,)](
            x, gain, bias, out, x, x, n, eps, points, groups, CENTRED=True, GAIN=True, BIAS=True,
            LOOKED_UP=False, **how(config),
        )  # fmt: skip
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        _, channels, points = inputs[0].shape
        yield from row_configs(channels // groups * points)

    return Tuned(configs, launch)


def embedding_norm(eps: float) -> Tuned:
    """``(table, ids, gain)``: rows of the table, and their norms."""

    def launch(inputs: Sequence[Tensor], config: Config) -> tuple[Tensor, Tensor]:
        table, ids, gain = inputs
        n = table.shape[1]
        copy, out = torch.empty((2, len(ids), n), dtype=table.dtype, device=table.device)
        _norm[(len(ids),)](
            table, gain, gain, out, ids, copy, n, eps, 1, 1, CENTRED=False, GAIN=True, BIAS=False,
            LOOKED_UP=True, **how(config),
        )  # fmt: skip
        return copy, out

    return Tuned(lambda inputs: (c for c in row_configs(inputs[0].shape[1]) if c["WHOLE"]), launch)


@triton.jit
def _mixed(x, h, a, out, n, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    inside = c < n
    v = tl.load(x + row * n + c, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(h + row * n + c, mask=inside, other=0.0).to(tl.float32)
    mix = tl.load(a + c, mask=inside, other=0.0).to(tl.float32)
    w = w * tl.rsqrt(tl.sum(w * w, 0) / n + 1e-6)
    y = v + mix * (w + v)
    y = y * tl.rsqrt(tl.sum(y * y, 0) / n + 1e-6)
    tl.store(out + row * n + c, y.to(out.dtype.element_ty), mask=inside)


def normed_mix() -> Tuned:
    """``rms(x + a * (rms(h) + x))``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, h, a = inputs
        out = torch.empty_like(x)
        _mixed[(len(x),)](x, h, a, out, x.shape[1], **how(config))
        return out

    return Tuned(lambda inputs: (c for c in row_configs(inputs[0].shape[1]) if c["WHOLE"]), launch)


@triton.jit
def _loss(
    x, p, out, n,
    BLOCK: tl.constexpr, WHOLE: tl.constexpr, TARGETS: tl.constexpr, BY_LANE: tl.constexpr,
):  # fmt: skip
    """The cross-entropy of a row with the number of a word, or with probabilities. Exponentials are
    relative to the largest score so far, of all lanes or of each one."""
    row = tl.program_id(0).to(tl.int64)
    most = tl.full((BLOCK,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    weighted = tl.zeros((BLOCK,), tl.float32)
    weights = tl.zeros((BLOCK,), tl.float32)
    for at in tl.range(0, n, BLOCK):
        c = at + tl.arange(0, BLOCK)
        inside = c < n
        v = tl.load(x + row * n + c, mask=inside, other=float("-inf")).to(tl.float32)
        new = tl.maximum(most, v if BY_LANE else tl.max(v, 0))
        total = total * tl.exp2((most - new) * 1.4426950408889634)
        total += tl.exp2((v - new) * 1.4426950408889634)
        most = new
        if not TARGETS:
            w = tl.load(p + row * n + c, mask=inside, other=0.0).to(tl.float32)
            weighted += tl.where(inside, v * w, 0.0)
            weights += w
    largest = tl.max(most, 0)
    total = total * tl.exp2((most - largest) * 1.4426950408889634)
    log = tl.log(tl.sum(total, 0)) + largest
    if TARGETS:
        result = log - tl.load(x + row * n + tl.load(p + row)).to(tl.float32)
    else:
        result = log * tl.sum(weights, 0) - tl.sum(weighted, 0)
    tl.store(out + row, result)


def loss(targets: bool) -> Tuned:
    """``(x, targets)``, or ``(x, probabilities)``: a number of f32 for each row."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, p = inputs
        out = torch.empty(len(x), dtype=torch.float32, device=x.device)
        _loss[(len(x),)](x, p, out, x.shape[1], TARGETS=targets, **how(config))
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        rows = [c for c in row_configs(inputs[0].shape[1]) if not c["WHOLE"]]
        yield from ({**c, "BY_LANE": lanes} for c in rows for lanes in (0, 1))

    return Tuned(configs, launch)
