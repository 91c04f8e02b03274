"""Attention in Triton in the forms that models have: heads that share keys, masks of positions,
lengths, pages, norms, rotary embeddings and latent rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton_tuned import FEW, LOG2E, Config, Tensor, Tuned, fitting, grid, how

EPS = 1e-6


@triton.jit
def _steps(
    tile, k, v, extra, table, most, total, sums, scale, slope, start, end, m, d, first, window,
    prefix, skn, skd, svn,
    D: tl.constexpr, BN: tl.constexpr, SEEN: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, PREFIX: tl.constexpr, EXTRA: tl.constexpr, NORM: tl.constexpr,
    PAGED: tl.constexpr,
):  # fmt: skip
    """Process keys from ``start`` to ``end``; ``SEEN`` says that all rows attend to all of them."""
    for at in tl.range(start, end, BN):
        n = at + tl.arange(0, BN)
        inside = n < end
        row = n
        if PAGED:
            row = tl.load(table + n, mask=inside, other=0)
        where = k + d[:, None] * skd + row[None, :] * skn
        kt = tl.load(where) if SEEN else tl.load(where, mask=inside[None, :], other=0.0)
        s = tl.dot(tile, kt)
        if NORM or EXTRA == 1 or EXTRA == 2:  # otherwise, the scale is part of a difference
            s = s * scale
        if NORM:
            wide = kt.to(tl.float32)
            s = s * tl.rsqrt(tl.sum(wide * wide, 0) / D + 1e-6)[None, :]
        if EXTRA == 1:  # a bias for each key
            bias = tl.load(extra + n, mask=inside, other=0.0).to(tl.float32)
            s = s + bias[None, :] * 1.4426950408889634
        if EXTRA == 2:  # a slope for each head
            s = s + slope * (n[None, :] - m[:, None]).to(tl.float32)
        if not SEEN:
            seen = inside[None, :]
            if CAUSAL:
                visible = n[None, :] <= m[:, None]
                if WINDOW:
                    visible = visible & (m[:, None] - n[None, :] < window)
                if PREFIX:
                    visible = visible | (n[None, :] < prefix)
                seen = seen & visible
            s = tl.where(seen, s, -1.0e30)
        if NORM or EXTRA == 1 or EXTRA == 2:
            new = tl.maximum(most, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
        else:
            new = tl.maximum(most, tl.max(s, 1) * scale)
            p = tl.exp2(s * scale - new[:, None])
        keep = tl.exp2(most - new)
        total = total * keep + tl.sum(p, 1)
        where = v + row[:, None] * svn + d[None, :]
        vt = tl.load(where) if SEEN else tl.load(where, mask=inside[:, None], other=0.0)
        sums = tl.dot(p.to(vt.dtype), vt, sums * keep[:, None])
        most = new
    return most, total, sums


@triton.jit
def _keys_of(
    block, split, length, window, prefix, BM: tl.constexpr, BN: tl.constexpr,
    SPLITS: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """Return the first and last key of a block's part; between ``begun`` and ``full``, its rows see
    all keys."""
    each = tl.cdiv(length, SPLITS * BN) * BN
    start = split * each
    end = tl.minimum(start + each, length)
    full = end
    if CAUSAL:
        end = tl.minimum(end, tl.maximum((block + 1) * BM, prefix))
        full = tl.minimum(end, tl.maximum(block * BM, prefix))
    begun = start
    if WINDOW:
        start = tl.maximum(start, block * BM - window + 1) // BN * BN
        begun = tl.maximum(start, tl.cdiv((block + 1) * BM - window, BN) * BN)
    full = begun + tl.maximum(full - begun, 0) // BN * BN
    return start, begun, full, end


@triton.jit
def _store(
    out, part, top, low, most, total, sums, m, d, rows, head, split,
    D: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Store the result, or a part of it for :func:`_combine`."""
    inside = m < rows
    if SPLITS == 1:
        result = sums / total[:, None]
        where = out + head.to(tl.int64) * rows * D + m[:, None] * D + d[None, :]
        tl.store(where, result.to(out.dtype.element_ty), mask=inside[:, None])
    else:
        row = (head * SPLITS + split) * rows + m
        tl.store(top + row, most, mask=inside)
        tl.store(low + row, total, mask=inside)
        tl.store(part + row[:, None] * D + d[None, :], sums, mask=inside[:, None])


@triton.jit
def _attend(
    q, k, v, out, part, top, low, extra, table, scale, rows, keys, window, prefix,
    skb, skh, skn, skd, svb, svh, svn, kv_heads, group,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PREFIX: tl.constexpr, EXTRA: tl.constexpr,
    NORM: tl.constexpr, PAGED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    block, split, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if CAUSAL:  # those with the most work first
        block = tl.num_programs(0) - 1 - block
    batch, kv_head = head // group // kv_heads, head // group % kv_heads
    m = block * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q += head.to(tl.int64) * rows * D
    tile = tl.load(q + m[:, None] * D + d[None, :], mask=m[:, None] < rows, other=0.0)
    if NORM:
        wide = tile.to(tl.float32)
        wide = wide * tl.rsqrt(tl.sum(wide * wide, 1) / D + 1e-6)[:, None]
        tile = wide.to(tile.dtype)
    k += batch.to(tl.int64) * skb + kv_head * skh
    v += batch.to(tl.int64) * svb + kv_head * svh
    slope = 0.0
    if EXTRA == 1:
        extra += batch * keys
    if EXTRA == 2:
        slope = tl.load(extra + head).to(tl.float32) * 1.4426950408889634
    length = keys
    if EXTRA == 3:  # a length for each sequence
        length = tl.load(extra + batch).to(tl.int32)
    if PAGED:
        table += batch.to(tl.int64) * keys
    start, begun, full, end = _keys_of(
        block, split, length, window, prefix, BM=BM, BN=BN, SPLITS=SPLITS,
        CAUSAL=CAUSAL, WINDOW=WINDOW,
    )  # fmt: skip
    most = tl.full((BM,), -1.0e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    if WINDOW:
        most, total, sums = _steps(
            tile, k, v, extra, table, most, total, sums, scale, slope, start,
            tl.minimum(begun, end), m, d, 0, window, prefix, skn, skd, svn, D=D, BN=BN, SEEN=False,
            CAUSAL=CAUSAL, WINDOW=WINDOW, PREFIX=PREFIX, EXTRA=EXTRA, NORM=NORM, PAGED=PAGED,
        )  # fmt: skip
    most, total, sums = _steps(
        tile, k, v, extra, table, most, total, sums, scale, slope, begun, full, m, d, 0, window,
        prefix, skn, skd, svn, D=D, BN=BN, SEEN=True,
        CAUSAL=CAUSAL, WINDOW=WINDOW, PREFIX=PREFIX, EXTRA=EXTRA, NORM=NORM, PAGED=PAGED,
    )  # fmt: skip
    if CAUSAL or not EVEN:
        most, total, sums = _steps(
            tile, k, v, extra, table, most, total, sums, scale, slope, full, end, m, d, 0, window,
            prefix, skn, skd, svn, D=D, BN=BN, SEEN=False,
            CAUSAL=CAUSAL, WINDOW=WINDOW, PREFIX=PREFIX, EXTRA=EXTRA, NORM=NORM, PAGED=PAGED,
        )  # fmt: skip
    _store(
        out, part, top, low, most, total, sums, m, d, rows, head, split, D=D, SPLITS=SPLITS
    )  # fmt: skip


@triton.jit
def _combine(out, part, top, low, rows, D: tl.constexpr, SPLITS: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    s, d = tl.arange(0, SPLITS), tl.arange(0, D)
    at = (head * SPLITS + s) * rows + row
    most = tl.load(top + at)
    weight = tl.exp2(most - tl.max(most, 0))
    total = tl.sum(weight * tl.load(low + at), 0)
    sums = tl.sum(weight[:, None] * tl.load(part + at[:, None] * D + d[None, :]), 0)
    tl.store(out + (head * rows + row) * D + d, (sums / total).to(out.dtype.element_ty))


@dataclass(frozen=True)
class Form:
    """``q (..., heads, rows, d)``, with keys stored by row; the inputs after ``k`` and ``v`` are a
    table of rows if ``paged``, and what ``extra`` says: 1 is a bias for each key of a sequence, 2 a
    slope for each head, 3 a length for each sequence."""

    scaled: bool = True
    causal: bool = False
    window: int = 0
    prefix: int = 0
    extra: int = 0
    norm: bool = False
    keys_by_row: bool = True
    paged: bool = False
    rotary: bool = False


def scratch(q: Tensor, heads: int, rows: int, d: int, splits: int) -> tuple[Tensor, Tensor, Tensor]:
    few = {"dtype": torch.float32, "device": q.device}
    part = torch.empty((heads, splits, rows, d) if splits > 1 else (1,), **few)
    top, low = torch.empty((2, heads, splits, rows) if splits > 1 else (2, 1), **few)
    return part, top, low


def attention(form: Form, tried: int = FEW) -> Tuned:
    """Attention with keys split if there are few blocks. Rows of heads that share keys are rows of
    one head if no mask tells them apart."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        q, k, v, *rest = inputs
        if form.rotary:
            q, k = rotated(q, *rest), rotated(k, *rest)
        shape, d = q.shape, q.shape[-1]
        kv_heads, group, rows = folded(form, q, v)
        skb, skh, skn = (0, k.stride(1), k.stride(0)) if form.paged else strides(k)
        skd = k.stride(-1)
        svb, svh, svn = (0, v.stride(1), v.stride(0)) if form.paged else strides(v)
        if not form.keys_by_row:
            skn, skd = skd, skn
        keys = rest[0].shape[1] if form.paged else v.shape[-2]
        splits, heads = config["SPLITS"], q.numel() // (rows * d)
        out = torch.empty_like(q)
        part, top, low = scratch(q, heads, rows, d, splits)
        scale = d**-0.5 if form.scaled else 1.0
        extra, table = (rest[-1] if form.extra else q), (rest[0] if form.paged else q)
        blocks = triton.cdiv(rows, config["BM"]), splits, heads
        even = form.extra != 3 and keys % (splits * config["BN"]) == 0
        _attend[blocks](
            q, k, v, out, part, top, low, extra, table, scale * LOG2E, rows, keys,
            form.window, form.prefix, skb, skh, skn, skd, svb, svh, svn, kv_heads, group, D=d,
            CAUSAL=form.causal, WINDOW=form.window > 0, PREFIX=form.prefix > 0, EXTRA=form.extra,
            NORM=form.norm, PAGED=form.paged, EVEN=even, **how(config),
        )  # fmt: skip
        if splits > 1:
            _combine[rows, heads](out, part, top, low, rows, D=d, SPLITS=splits, num_warps=4)
        return out.reshape(shape)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        q, _, v = inputs[:3]
        _, _, rows = folded(form, q, v)
        heads = q.numel() // (rows * q.shape[-1])
        tall = (
            [16]
            if rows <= 16
            else [64, 128, *([256] if tried > FEW else [])]
            if rows > 64
            else [16, 32, 64]
        )
        tall = [t for t in tall if t <= max(64, rows)]
        splits = [1] if form.causal else [1, 2, 4, 8, 16, 32]
        every = grid(BM=tall, BN=[32, 64, 128], SPLITS=splits, warps=[4, 8], stages=[2, 3, 4])
        every = (c for c in every if c["warps"] == 4 or c["BM"] > 64)
        yield from fitting(lambda c: heads * triton.cdiv(rows, c["BM"]) * c["SPLITS"], every)

    return Tuned(configs, launch, tried=tried)


def folded(form: Form, q: Tensor, v: Tensor) -> tuple[int, int, int]:
    """Return the number of heads that have keys, how many heads share each, and the rows of one."""
    heads, rows = q.shape[-3], q.shape[-2]
    kv_heads = v.shape[1] if form.paged else v.shape[-3]
    group = heads // kv_heads
    return (kv_heads, group, rows) if rows > 1 else (kv_heads, 1, group)


def strides(x: Tensor) -> tuple[int, int, int]:
    """Return the strides of sequences, heads and rows."""
    return (x.stride(0) if x.dim() == 4 else 0), x.stride(-3), x.stride(-2)


@triton.jit
def _rotate(x, cos, sin, out, tokens, D: tl.constexpr, BM: tl.constexpr):
    m, half = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D // 2)
    inside = m[:, None] < tokens
    head = tl.program_id(1) * tokens * D
    at = m[:, None] * D + half[None, :]
    low = tl.load(x + head + at, mask=inside).to(tl.float32)
    high = tl.load(x + head + at + D // 2, mask=inside).to(tl.float32)
    c1 = tl.load(cos + at, mask=inside).to(tl.float32)
    c2 = tl.load(cos + at + D // 2, mask=inside).to(tl.float32)
    s1 = tl.load(sin + at, mask=inside).to(tl.float32)
    s2 = tl.load(sin + at + D // 2, mask=inside).to(tl.float32)
    kind = out.dtype.element_ty
    tl.store(out + head + at, (low * c1 - high * s1).to(kind), mask=inside)
    tl.store(out + head + at + D // 2, (high * c2 + low * s2).to(kind), mask=inside)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embeddings of ``(heads, tokens, d)``, of halves of a row."""
    heads, tokens, d = x.shape
    out = torch.empty_like(x)
    _rotate[triton.cdiv(tokens, 32), heads](x, cos, sin, out, tokens, D=d, BM=32, num_warps=4)
    return out


@triton.jit
def _latent(
    q, k, part, top, low, out, scale, rows, keys, width,
    D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    block, split, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    m, d, r = block * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, R)
    inside = m[:, None] < rows
    q += batch * rows * width
    k += batch * keys * width
    tile = tl.load(q + m[:, None] * width + d[None, :], mask=inside, other=0.0)
    rest = tl.load(q + m[:, None] * width + D + r[None, :], mask=inside, other=0.0)
    each = tl.cdiv(keys, SPLITS)
    most = tl.full((BM,), -1.0e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    end = tl.minimum((split + 1) * each, keys)
    for at in tl.range(split * each, end, BN):
        n = at + tl.arange(0, BN)
        here = n < end
        values = tl.load(k + n[:, None] * width + d[None, :], mask=here[:, None], other=0.0)
        others = tl.load(k + n[:, None] * width + D + r[None, :], mask=here[:, None], other=0.0)
        s = tl.dot(tile, tl.trans(values))
        s = tl.dot(rest, tl.trans(others), s) * scale
        s = tl.where(here[None, :], s, -1.0e30)
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        keep = tl.exp2(most - new)
        total = total * keep + tl.sum(p, 1)
        sums = tl.dot(p.to(values.dtype), values, sums * keep[:, None])
        most = new
    if SPLITS == 1:
        where = out + batch * rows * D + m[:, None] * D + d[None, :]
        tl.store(where, (sums / total[:, None]).to(out.dtype.element_ty), mask=inside)
    else:
        row = (batch * SPLITS + split) * rows + m
        tl.store(top + row, most, mask=m < rows)
        tl.store(low + row, total, mask=m < rows)
        tl.store(part + row[:, None] * D + d[None, :], sums, mask=inside)


def latent(kept: int, scale: float) -> Tuned:
    """Heads that share one row of latents for each key, the first ``kept`` of which are values."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        q, k = inputs
        batch, rows, width = q.shape
        splits = config["SPLITS"]
        out = torch.empty((batch, rows, kept), dtype=q.dtype, device=q.device)
        part, top, low = scratch(q, batch, rows, kept, splits)
        _latent[triton.cdiv(rows, config["BM"]), splits, batch](
            q, k, part, top, low, out, scale * LOG2E, rows, k.shape[1], width,
            D=kept, R=width - kept, **how(config),
        )  # fmt: skip
        if splits > 1:
            _combine[rows, batch](out, part, top, low, rows, D=kept, SPLITS=splits, num_warps=4)
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        batch, rows, _ = inputs[0].shape
        every = grid(
            BM=[16, 32, 64], BN=[16, 32, 64], SPLITS=[4, 8, 16, 32, 64], warps=[4, 8], stages=[1, 2]
        )
        yield from fitting(lambda c: batch * triton.cdiv(rows, c["BM"]) * c["SPLITS"], every)

    return Tuned(configs, launch, tried=FEW)
