"""Linear layers of few rows in Triton, fused with what comes before and after them: norms, residual
sums, gates, biases, adapters.

Each block computes the statistics of its rows itself, which are few, and then streams its weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from triton_tuned import FEW, Config, Tensor, Tuned, fitting, grid, how


@triton.jit
def _read(
    x, r, gain, bias, i, m, rows, k, mean, rstd,
    NORM: tl.constexpr, RESIDUAL: tl.constexpr, SILU: tl.constexpr, GAIN: tl.constexpr,
    BIAS: tl.constexpr,
):  # fmt: skip
    """A tile of the left factor, normalised."""
    at = tl.where(m < rows, m, 0)[:, None] * k + i[None, :]
    v = tl.load(x + at)
    if RESIDUAL:
        v = (v.to(tl.float32) + tl.load(r + at).to(tl.float32)).to(v.dtype)
    if NORM == 0:
        return v
    y = (v.to(tl.float32) - mean[:, None]) * rstd[:, None]
    if GAIN:
        y = y * tl.load(gain + i).to(tl.float32)[None, :]
    if BIAS:
        y = y + tl.load(bias + i).to(tl.float32)[None, :]
    if SILU:
        y = y * tl.sigmoid(y)
    return y.to(v.dtype)


@triton.jit
def _layer(
    x, r, gain, shift, w, second, after, out, parts, rows, n, k, eps,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr,
    NORM: tl.constexpr, RESIDUAL: tl.constexpr, SILU: tl.constexpr, GAIN: tl.constexpr,
    BIAS: tl.constexpr, GATED: tl.constexpr, AFTER: tl.constexpr,
):  # fmt: skip
    """``NORM``: 0 none, 1 of squares, 2 centred. ``AFTER``: 1 a bias, 2 a bias and gelu, 3 silu.
    The third axis of the grid is a batch of factors."""
    batch = tl.program_id(2).to(tl.int64)
    x += batch * rows * k
    w += batch * n * k
    out += batch * rows * n
    m, c = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    split = tl.program_id(1)
    mean = tl.zeros((BM,), tl.float32)
    rstd = tl.zeros((BM,), tl.float32)
    if NORM > 0:
        one = tl.zeros((BM, BK), tl.float32)
        two = tl.zeros((BM, BK), tl.float32)
        for at in tl.range(0, k, BK):
            i = at + tl.arange(0, BK)
            v = _read(
                x, r, gain, shift, i, m, rows, k, mean, rstd, 0, RESIDUAL, False, False, False
            ).to(tl.float32)
            one += v
            two += v * v
        if NORM == 2:
            mean = tl.sum(one, 1) / k
        rstd = tl.rsqrt(tl.sum(two, 1) / k - mean * mean + eps)
    first = tl.zeros((BM, BN), tl.float32)
    other = tl.zeros((BM, BN), tl.float32)
    inner = c[None, :] < n
    for at in tl.range(split * (k // SPLITS), (split + 1) * (k // SPLITS), BK):
        i = at + tl.arange(0, BK)
        t = _read(x, r, gain, shift, i, m, rows, k, mean, rstd, NORM, RESIDUAL, SILU, GAIN, BIAS)
        where = i[:, None].to(tl.int64) * n + c[None, :]
        wt = tl.load(w + where, mask=inner, other=0.0, eviction_policy="evict_first")
        first = tl.dot(t, wt, first)
        if GATED:
            ut = tl.load(second + where, mask=inner, other=0.0, eviction_policy="evict_first")
            other = tl.dot(t, ut, other)
    inside = (m[:, None] < rows) & inner
    if SPLITS == 1:
        result = _finish(first, other, after, c, n, GATED, AFTER)
        tl.store(out + m[:, None] * n + c[None, :], result.to(out.dtype.element_ty), inside)
    else:
        where = parts + (split * rows + m)[:, None] * n + c[None, :]
        tl.store(where, first, inside)
        if GATED:
            tl.store(where + SPLITS * rows * n, other, inside)


@triton.jit
def _finish(first, other, after, c, n, GATED: tl.constexpr, AFTER: tl.constexpr):
    if GATED:
        first = first * tl.sigmoid(first) * other
    if AFTER == 1 or AFTER == 2:
        first = first + tl.load(after + c, mask=c < n, other=0.0).to(tl.float32)[None, :]
    if AFTER == 2:
        first = 0.5 * first * (1.0 + tl.erf(first * 0.7071067811865476))
    if AFTER == 3:
        first = first * tl.sigmoid(first)
    return first


@triton.jit
def _join(
    parts, after, out, rows, n,
    BN: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr, AFTER: tl.constexpr,
):  # fmt: skip
    row, c = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    inside = c < n
    first = tl.zeros((1, BN), tl.float32)
    other = tl.zeros((1, BN), tl.float32)
    for s in tl.static_range(SPLITS):
        where = parts + (s * rows + row) * n + c
        first += tl.load(where, mask=inside, other=0.0)[None, :]
        if GATED:
            other += tl.load(where + SPLITS * rows * n, mask=inside, other=0.0)[None, :]
    result = _finish(first, other, after, c, n, GATED, AFTER)
    target = out + row * n + c[None, :]
    tl.store(target, result.to(out.dtype.element_ty), mask=inside[None, :])


@dataclass(frozen=True)
class Layer:
    """What comes before and after a linear layer; inputs are ``(x, residual, gain, bias, weights,
    bias after)``, without those that it has not."""

    norm: int = 0
    residual: bool = False
    silu: bool = False
    bias: bool = False
    gated: bool = False
    after: int = 0
    eps: float = 1e-6
    weights: int = 1
    """How many weights it has, each with its own result (``gated``: two with one result)."""


def run_layer(layer: Layer, inputs: Sequence[Tensor], config: Config) -> list[Tensor]:
    """Return the results of a layer."""
    x, *rest = inputs
    r = rest.pop(0) if layer.residual else x
    gain = rest.pop(0) if layer.norm else x
    shift = rest.pop(0) if layer.bias else gain
    weights = [rest.pop(0) for _ in range(1 if layer.gated else layer.weights)]
    second = rest.pop(0) if layer.gated else weights[0]
    after = rest[0] if rest else x
    rows, k = x.shape[-2:]
    splits, results = config["SPLITS"], list[Tensor]()
    shared = {"GATED": layer.gated, "AFTER": layer.after}
    for w in weights:
        n, batch = w.shape[-1], w.shape[0] if w.dim() == 3 else 1
        out = torch.empty((*x.shape[:-1], n), dtype=x.dtype, device=x.device)
        wide = {"dtype": torch.float32, "device": x.device}
        parts = torch.empty((2, splits, rows, n), **wide) if splits > 1 else out
        _layer[triton.cdiv(n, config["BN"]), splits, batch](
            x, r, gain, shift, w, second, after, out, parts, rows, n, k, layer.eps,
            NORM=layer.norm, RESIDUAL=layer.residual, SILU=layer.silu, GAIN=layer.norm > 0,
            BIAS=layer.bias, **shared, **how(config),
        )  # fmt: skip
        if splits > 1:
            _join[triton.cdiv(n, 256), rows](
                parts, after, out, rows, n, BN=256, SPLITS=splits, **shared, num_warps=4
            )
        results.append(out)
    return results


def layer_configs(
    rows: int, k: int, n: int, splits: Sequence[int], batch: int = 1
) -> Iterator[Config]:
    """Likely tiles of weights ``(k, n)``."""
    every = grid(
        BM=[max(16, triton.next_power_of_2(rows))], BN=[16, 32, 64, 128],
        BK=[b for b in (64, 128, 256, 512) if b <= k], SPLITS=splits, warps=[2, 4, 8],
        stages=[3, 4],
    )  # fmt: skip
    every = (
        c
        for c in every
        if 16e3 <= 2 * c["BN"] * c["BK"] * c["stages"] <= 120e3
        and k % (c["BK"] * c["SPLITS"]) == 0
        and c["BM"] * c["BK"] <= 16384
    )
    yield from fitting(lambda c: batch * triton.cdiv(n, c["BN"]) * c["SPLITS"], every)


def linear(layer: Layer) -> Tuned:
    """One linear layer, or several that share their input."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Any:
        results = run_layer(layer, inputs, config)
        return results[0] if len(results) == 1 else tuple(results)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        rows, k = inputs[0].shape[-2:]
        n = max(x.shape[-1] for x in inputs if x.dim() >= 2 and x.shape[-2] == k)
        yield from layer_configs(rows, k, n, (1, 2, 4, 8))

    return Tuned(configs, launch, tried=FEW)


def two(first: Layer, second: Layer, inputs_of_second: int, batched: bool = False) -> Tuned:
    """Two layers after each other; the last inputs belong to the second one. Tiles of both are
    tuned together, each from its own list."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        count = len(inputs) - inputs_of_second
        one = {k[1:]: v for k, v in config.items() if k[0] == "1"}
        other = {k[1:]: v for k, v in config.items() if k[0] == "2"}
        (hidden,) = run_layer(first, inputs[:count], one)
        return run_layer(second, (hidden, *inputs[count:]), other)[0]

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        rows, k = inputs[0].shape[-2:]
        w = inputs[len(inputs) - inputs_of_second]
        batch = w.shape[0] if batched else 1
        splits = (1,) if batched else (1, 2, 4, 8)
        ones = list(layer_configs(rows, k, w.shape[-2], splits, batch))[:24]
        others = list(layer_configs(rows, *w.shape[-2:], splits, batch))[:24]
        for i in range(max(len(ones), len(others))):
            a, b = ones[i % len(ones)], others[i % len(others)]
            yield {f"1{k}": v for k, v in a.items()} | {f"2{k}": v for k, v in b.items()}

    return Tuned(configs, launch, tried=FEW)


@triton.jit
def _adapted(
    x, w1, a1, b1, w2, a2, b2, out, rows, n, k,
    R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m, c, r = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, R)
    one = tl.zeros((BM, BN), tl.float32)
    two = tl.zeros((BM, BN), tl.float32)
    low = tl.zeros((BM, R), tl.float32)
    other = tl.zeros((BM, R), tl.float32)
    xs = x + tl.where(m < rows, m, 0)[:, None] * k
    for at in tl.range(0, k, BK):
        i = at + tl.arange(0, BK)
        xt = tl.load(xs + i[None, :])
        one = tl.dot(xt, tl.load(w1 + i[:, None] * n + c[None, :]), one)
        two = tl.dot(xt, tl.load(w2 + i[:, None] * n + c[None, :]), two)
        low = tl.dot(xt, tl.load(a1 + i[:, None] * R + r[None, :]), low)
        other = tl.dot(xt, tl.load(a2 + i[:, None] * R + r[None, :]), other)
    bt = tl.load(b1 + r[:, None] * n + c[None, :])
    one = tl.dot(low.to(bt.dtype), bt, one)
    bt = tl.load(b2 + r[:, None] * n + c[None, :])
    two = tl.dot(other.to(bt.dtype), bt, two)
    result = one * tl.sigmoid(one) * two
    tl.store(out + m[:, None] * n + c[None, :], result.to(out.dtype.element_ty), m[:, None] < rows)


def adapted_gate() -> Tuned:
    """``silu(x W1 + x A1 B1) * (x W2 + x A2 B2)``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, w1, a1, b1, w2, a2, b2 = inputs
        (rows, k), n = x.shape, w1.shape[1]
        out = torch.empty((rows, n), dtype=x.dtype, device=x.device)
        sizes = {key: value for key, value in config.items() if key != "SPLITS"}
        _adapted[(triton.cdiv(n, config["BN"]),)](
            x, w1, a1, b1, w2, a2, b2, out, rows, n, k, R=a1.shape[1], **how(sizes)
        )
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        x, w = inputs[:2]
        yield from layer_configs(*x.shape, w.shape[1], (1,))

    return Tuned(configs, launch, tried=FEW)


@triton.jit
def _narrow(x, a, parts, rows, k, R: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
            SPLITS: tl.constexpr):  # fmt: skip
    m, r, split = tl.arange(0, BM), tl.arange(0, 16), tl.program_id(0)
    sums = tl.zeros((BM, 16), tl.float32)
    xs = x + tl.where(m < rows, m, 0)[:, None] * k
    for at in tl.range(split * (k // SPLITS), (split + 1) * (k // SPLITS), BK):
        i = at + tl.arange(0, BK)
        at_ = tl.load(a + i[:, None] * R + r[None, :], mask=r[None, :] < R, other=0.0)
        sums = tl.dot(tl.load(xs + i[None, :]), at_, sums)
    tl.store(parts + (split * BM + m)[:, None] * 16 + r[None, :], sums)


@triton.jit
def _widen(parts, b, out, rows, n, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           SPLITS: tl.constexpr):  # fmt: skip
    m, r, c = tl.arange(0, BM), tl.arange(0, 16), tl.program_id(0) * BN + tl.arange(0, BN)
    bt = tl.load(b + r[:, None] * n + c[None, :], mask=r[:, None] < R, other=0.0)
    low = tl.zeros((BM, 16), tl.float32)
    for s in tl.range(0, SPLITS):
        low += tl.load(parts + (s * BM + m)[:, None] * 16 + r[None, :])
    result = tl.dot(low.to(bt.dtype), bt)
    tl.store(out + m[:, None] * n + c[None, :], result.to(out.dtype.element_ty), m[:, None] < rows)


def low_rank() -> Tuned:
    """``(x A) B`` with a rank of at most 16."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, a, b = inputs
        (rows, k), n, splits = x.shape, b.shape[1], config["SPLITS"]
        out = torch.empty((rows, n), dtype=x.dtype, device=x.device)
        high = max(16, triton.next_power_of_2(rows))
        parts = torch.empty((splits, high, 16), dtype=torch.float32, device=x.device)
        same = {"R": a.shape[1], "BM": high, "SPLITS": splits, "num_warps": config["warps"]}
        _narrow[(splits,)](x, a, parts, rows, k, BK=config["BK"], **same)
        _widen[(triton.cdiv(n, config["BN"]),)](parts, b, out, rows, n, BN=config["BN"], **same)
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        k = inputs[0].shape[1]
        for c in grid(
            SPLITS=[16, 32, 64, 128], BK=[32, 64, 128, 256], BN=[32, 64, 128], warps=[2, 4]
        ):
            if k % (c["SPLITS"] * c["BK"]) == 0:
                yield c

    return Tuned(configs, launch, tried=FEW)


GAINED = Layer(norm=1)
QKV = replace(GAINED, weights=3)
