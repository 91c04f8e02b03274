"""Layers of experts in Triton: products of blocks of rows with the weights of their experts, which
the tensor memory accelerator reads, and the results that each token keeps.

Experts without rows, and blocks that are only padding, are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_tuned import FEW, Config, Tensor, Tuned, grid, how


@triton.jit
def _mark(place, used, every, BLOCK: tl.constexpr, BM: tl.constexpr):
    """Set ``used`` of each block that has a row of a token."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    row = tl.load(place + i, i < every, other=0)
    tl.store(used + row // BLOCK, 1, i < every)


@triton.jit
def _blocks(
    x, rows, owner, used, w, second, out, high, n, k,
    BLOCK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """``silu(x[rows] @ w) * (x[rows] @ second)`` if ``GATED``, otherwise ``x @ w``; the weights
    ``(experts * k, n)`` are those of each block's owner."""
    wide = tl.cdiv(n, BN)
    tile = tl.program_id(0)
    first = tile // (GROUP * wide) * GROUP
    size = tl.minimum(high - first, GROUP)
    i = first + tile % (GROUP * wide) % size
    j = tile % (GROUP * wide) // size * BN
    block = i * BM // BLOCK
    if tl.load(used + block) != 0:
        m = i * BM + tl.arange(0, BM)
        row = tl.load(rows + m) if GATED else m
        where = x + row.to(tl.int64)[:, None] * k
        top = tl.load(owner + block).to(tl.int32) * k
        sums = tl.zeros((BM, BN), tl.float32)
        other = tl.zeros((BM, BN), tl.float32)
        for at in tl.range(0, k, BK):
            left = tl.load(where + (at + tl.arange(0, BK))[None, :])
            sums = tl.dot(left, w.load([top + at, j]), sums)
            if GATED:
                other = tl.dot(left, second.load([top + at, j]), other)
        if GATED:
            sums = sums * tl.sigmoid(sums) * other
        target = out + m.to(tl.int64)[:, None] * n + j + tl.arange(0, BN)[None, :]
        tl.store(target, sums.to(out.dtype.element_ty))


@triton.jit
def _gather(y, place, gates, out, width, TOP: tl.constexpr, BN: tl.constexpr):
    """The rows of each token times its gates, added up."""
    token, c = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BN,), tl.float32)
    for slot in tl.static_range(TOP):
        row = tl.load(place + token * TOP + slot).to(tl.int64)
        gate = tl.load(gates + token * TOP + slot).to(tl.float32)
        sums += tl.load(y + row * width + c).to(tl.float32) * gate
    tl.store(out + token * width + c, sums.to(out.dtype.element_ty))


def grouped(block: int) -> Tuned:
    """Rows in blocks of one expert each, as a router gives them."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, rows, owner, place, gates, w1, w2, w3 = inputs
        (tokens, top), width, size = place.shape, w1.shape[1], len(rows)
        used = torch.zeros(len(owner), dtype=torch.int32, device=x.device)
        _mark[(triton.cdiv(place.numel(), 256),)](place, used, place.numel(), BLOCK=block, BM=256)
        own = {key: value for key, value in config.items() if key != "DOWN"}
        high, deep = size // config["BM"], config["BK"]

        def product(left: Tensor, ups: Sequence[Tensor], columns: int) -> Tensor:
            k, n = ups[0].shape[1:]
            out = torch.empty((size, n), dtype=x.dtype, device=x.device)
            boxes = [TensorDescriptor.from_tensor(w.view(-1, n), [deep, columns]) for w in ups]
            sizes = {**own, "BN": columns}
            _blocks[(high * triton.cdiv(n, columns),)](
                left, rows, owner, used, boxes[0], boxes[-1], out, high, n, k,
                BLOCK=block, GATED=len(ups) == 2, **how(sizes),
            )  # fmt: skip
            return out

        h = product(x, (w1, w2), config["BN"])
        y = product(h, (w3,), config["DOWN"])
        out = torch.empty_like(x)
        wide = min(1024, triton.next_power_of_2(width))
        _gather[tokens, triton.cdiv(width, wide)](
            y, place, gates, out, width, TOP=top, BN=wide, num_warps=4
        )
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        _, width, inner = inputs[5].shape
        wide = [c for c in (128, 64, 32) if c <= inner]
        downs = [c for c in (256, 128, 64) if c <= width]
        deep = [c for c in (64, 128, 32) if width % c == inner % c == 0]
        every = grid(
            GROUP=[8], BK=deep, DOWN=downs, BN=wide, BM=[min(block, 128)],
            warps=[4, 8], stages=[3, 4],
        )  # fmt: skip
        yield from _likely(every, block)

    return Tuned(configs, launch, tried=FEW)


def _likely(every: Iterator[Config], block: int) -> Iterator[Config]:
    """Return the configurations that fit in shared memory, with 8 warps only for large tiles."""
    for c in every:
        rows, columns = c["BM"], max(2 * c["BN"], c["DOWN"])
        slots = c["stages"] * c["BK"] * (rows + columns) * 2
        if slots <= 220e3 and (c["warps"] == 8) == (rows * columns >= 128 * 256):
            yield c


# ---- few tokens, each of which is multiplied with the weights of all experts


@triton.jit
def _choose(
    scores, gates, tokens, COUNT: tl.constexpr, EVERY: tl.constexpr, TOP: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    """Store the factors ``(experts, tokens)`` of the results: 0 where an expert is not chosen."""
    m, e = tl.arange(0, BM), tl.arange(0, EVERY)
    inside = (m[:, None] < tokens) & (e[None, :] < COUNT)
    s = tl.load(scores + m[:, None] * COUNT + e[None, :], inside, other=float("-inf"))
    p = tl.exp2((s - tl.max(tl.where(inside, s, -1e30), 1)[:, None]) * 1.4426950408889634)
    kept = tl.zeros((BM, EVERY), tl.float32)
    for _ in tl.static_range(TOP):  # the largest one that is left, the first one of equals
        chosen = e[None, :] == tl.argmax(tl.where(kept > 0.0, -1.0, p), 1)[:, None]
        kept = tl.where(chosen, p, kept)
    kept = kept / tl.sum(kept, 1)[:, None]
    tl.store(gates + e[None, :] * tokens + m[:, None], kept, inside)


@triton.jit
def _up(
    x, gates, w, second, out, tokens, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    expert, j, m = tl.program_id(1), tl.program_id(0) * BN, tl.arange(0, BM)
    gate = tl.load(gates + expert * tokens + m, m < tokens, other=0.0)
    if tl.max(gate, 0) > 0.0:
        where = x + tl.where(m < tokens, m, 0)[:, None] * k
        sums = tl.zeros((BM, BN), tl.float32)
        other = tl.zeros((BM, BN), tl.float32)
        for at in tl.range(0, k, BK):
            left = tl.load(where + (at + tl.arange(0, BK))[None, :])
            sums = tl.dot(left, w.load([expert * k + at, j]), sums)
            other = tl.dot(left, second.load([expert * k + at, j]), other)
        sums = sums * tl.sigmoid(sums) * other
        target = out + (expert * tokens + m)[:, None] * n + j + tl.arange(0, BN)[None, :]
        tl.store(target, sums.to(out.dtype.element_ty), m[:, None] < tokens)


@triton.jit
def _down(
    h, gates, w, parts, tokens, n, k,
    COUNT: tl.constexpr, PARTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Add up every ``PARTS``-th expert's results times its gates."""
    part, j, m = tl.program_id(1), tl.program_id(0) * BN, tl.arange(0, BM)
    total = tl.zeros((BM, BN), tl.float32)
    for expert in tl.range(part, COUNT, PARTS):
        gate = tl.load(gates + expert * tokens + m, m < tokens, other=0.0)
        if tl.max(gate, 0) > 0.0:
            where = h + (expert * tokens + tl.where(m < tokens, m, 0))[:, None] * k
            sums = tl.zeros((BM, BN), tl.float32)
            for at in tl.range(0, k, BK):
                left = tl.load(where + (at + tl.arange(0, BK))[None, :])
                sums = tl.dot(left, w.load([expert * k + at, j]), sums)
            total += sums * gate[:, None]
    target = parts + (part * tokens + m)[:, None] * n + j + tl.arange(0, BN)[None, :]
    tl.store(target, total, m[:, None] < tokens)


@triton.jit
def _added(parts, out, every, PARTS: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    sums = tl.zeros((BN,), tl.float32)
    for part in tl.static_range(PARTS):
        sums += tl.load(parts + part * every + c, c < every, other=0.0)
    tl.store(out + c, sums.to(out.dtype.element_ty), c < every)


def routed(top: int) -> Tuned:
    """Few tokens with the router's scores: the weights of chosen experts are read once."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, scores, w1, w2, w3 = inputs
        tokens, (count, width, inner) = len(x), w1.shape
        parts, columns, deep = config["PARTS"], config["BN"], config["BK"]
        rows = max(16, triton.next_power_of_2(tokens))
        boxes = [
            TensorDescriptor.from_tensor(w.view(-1, w.shape[2]), [deep, columns])
            for w in (w1, w2, w3)
        ]
        h = torch.empty((count, tokens, inner), dtype=x.dtype, device=x.device)
        own = {key: value for key, value in config.items() if key != "PARTS"}
        same = {"BM": rows, **how(own)}
        gates = torch.empty((count, tokens), dtype=torch.float32, device=x.device)
        every = max(16, triton.next_power_of_2(count))
        _choose[(1,)](scores, gates, tokens, COUNT=count, EVERY=every, TOP=top, BM=rows)
        _up[triton.cdiv(inner, columns), count](
            x, gates, boxes[0], boxes[1], h, tokens, inner, width, **same
        )
        sums = torch.empty((parts, tokens, width), dtype=torch.float32, device=x.device)
        _down[triton.cdiv(width, columns), parts](
            h, gates, boxes[2], sums, tokens, width, inner, COUNT=count, PARTS=parts, **same
        )
        out = torch.empty_like(x)
        _added[(triton.cdiv(out.numel(), 512),)](sums, out, out.numel(), PARTS=parts, BN=512)
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        _, _, w1, _, _ = inputs
        count, width, inner = w1.shape
        parts = [p for p in (8, 4, 16) if p <= count]
        wide = [c for c in (64, 32, 128) if c <= min(inner, width)]
        deep = [c for c in (128, 64, 256) if width % c == inner % c == 0]
        yield from grid(PARTS=parts, BN=wide, BK=deep, warps=[4], stages=[4, 3])

    return Tuned(configs, launch, tried=FEW)
