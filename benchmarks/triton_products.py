"""Products of many rows in Triton: tiles by the tensor memory accelerator, in an order that keeps
factors in L2, by resident blocks or by one block for each tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_rows import normed
from triton_tuned import FEW, Config, Tensor, Tuned, grid, how

FULL = 132


@triton.jit
def _tiles(
    a, b, second, out, residual, scales_a, scales_b, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    BY_ROW: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """``BY_ROW``: the right factor is stored as ``(n, k)``."""
    high, wide = tl.cdiv(m, BM), tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), high * wide, tl.num_programs(0), flatten=True):
        group = tile // (GROUP * wide)
        first = group * GROUP
        size = tl.minimum(high - first, GROUP)
        i = (first + tile % (GROUP * wide) % size) * BM
        j = tile % (GROUP * wide) // size * BN
        sums = tl.zeros((BM, BN), tl.float32)
        other = tl.zeros((BM, BN), tl.float32)
        for at in tl.range(0, k, BK):
            left = a.load([i, at])
            if BY_ROW:
                sums = tl.dot(left, b.load([j, at]).T, sums)
            else:
                sums = tl.dot(left, b.load([at, j]), sums)
            if GATED:
                other = tl.dot(left, second.load([at, j]), other)
        if GATED:
            sums = sums * tl.sigmoid(sums) * other
        if SCALED:
            sums = sums * (tl.load(scales_a) * tl.load(scales_b))
        if RESIDUAL:
            sums += residual.load([i, j]).to(tl.float32)
        out.store([i, j], sums.to(out.dtype))


@triton.jit
def _any(
    a, b, out, m, n, k, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Factors whose rows start anywhere."""
    high, wide = tl.cdiv(m, BM), tl.cdiv(n, BN)
    tile = tl.program_id(0)
    first = tile // (GROUP * wide) * GROUP
    size = tl.minimum(high - first, GROUP)
    i = (first + tile % (GROUP * wide) % size) * BM + tl.arange(0, BM)
    j = tile % (GROUP * wide) // size * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    x = tl.arange(0, BK)
    for at in tl.range(0, k, BK):
        inside = at + x < k
        left = tl.load(
            a + i[:, None] * k + (at + x)[None, :], (i[:, None] < m) & inside[None, :], other=0.0
        )
        right = tl.load(
            b + (at + x)[:, None] * sbk + j[None, :] * sbn, inside[:, None] & (j[None, :] < n),
            other=0.0,
        )  # fmt: skip
        sums = tl.dot(left, right, sums)
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(out + i[:, None] * n + j[None, :], sums.to(out.dtype.element_ty), inside)


def aligned(*tensors: Tensor) -> bool:
    """Whether rows of all of them start at multiples of 16 bytes."""
    return all(x.stride(0) * x.element_size() % 16 == 0 for x in tensors)


def multiply(
    a: Tensor, b: Tensor, config: Config, *, by_row: bool, second: Tensor | None = None,
    residual: Tensor | None = None, scales: Sequence[Tensor] = (), kind: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """``a (m, k)`` times ``b (k, n)``, or ``(n, k)`` if stored ``by_row``."""
    (m, k), n = a.shape, b.shape[0 if by_row else 1]
    out = torch.empty((m, n), dtype=kind or a.dtype, device=a.device)
    high, wide, deep = config["BM"], config["BN"], config["BK"]
    tiles = triton.cdiv(m, high) * triton.cdiv(n, wide)
    own = {key: value for key, value in config.items() if key != "RESIDENT"}
    if not aligned(a, b, out):
        strides = (b.stride(1), b.stride(0)) if by_row else (b.stride(0), b.stride(1))
        _any[(tiles,)](a, b, out, m, n, k, *strides, **how(own))
        return out
    boxes = [deep, wide] if not by_row else [wide, deep]
    described = TensorDescriptor.from_tensor
    left, right, target = (
        described(a, [high, deep]), described(b, boxes), described(out, [high, wide])
    )  # fmt: skip
    _tiles[(min(tiles, FULL) if config["RESIDENT"] else tiles,)](
        left, right, right if second is None else described(second, boxes), target,
        target if residual is None else described(residual, [high, wide]),
        *(scales or (a, a)), m, n, k, BY_ROW=by_row, GATED=second is not None,
        RESIDUAL=residual is not None, SCALED=bool(scales), **how(own),
    )  # fmt: skip
    return out


def tile_configs(m: int, n: int, k: int, size: int, gated: bool = False) -> Iterator[Config]:
    """Tiles that fit in shared memory: few rows in low tiles."""
    tall = [t for t in (64, 128, 256) if t <= max(64, m)]
    deep = {1: [128], 2: [64, 128], 4: [32]}[size]
    every = grid(
        BM=tall, BN=[64, 128, 256], BK=deep, GROUP=[8], RESIDENT=[0, 1], stages=[3, 4],
        warps=[4, 8],
    )  # fmt: skip
    for c in every:
        area, factors = c["BM"] * c["BN"], c["BM"] + c["BN"] * (2 if gated else 1)
        enough = area * (2 if gated else 1) <= (16384 if c["warps"] == 4 else 32768)
        useful = area >= 16384 if c["warps"] == 8 else True
        busy = triton.cdiv(m, c["BM"]) * triton.cdiv(n, c["BN"]) >= 48 or area <= 8192
        fits = factors * c["BK"] * size * c["stages"] <= 200_000
        if enough and useful and busy and fits and c["BK"] <= max(k, 64):
            yield c


def product(by_row: bool) -> Tuned:
    """``(a, b)``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        return multiply(*inputs, config, by_row=by_row)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        a, b = inputs
        yield from tile_configs(*a.shape, b.shape[0 if by_row else 1], a.element_size())

    return Tuned(lambda inputs: large_first(configs, inputs), launch, tried=FEW)


def large_first(configs: Any, inputs: Sequence[Tensor]) -> Iterator[Config]:
    """Large tiles first."""
    yield from sorted(configs(inputs), key=lambda c: -c["BM"] * c["BN"])


def scaled_product() -> Tuned:
    """``(a, b, scale of a, scale of b)`` of 8-bit floats, in bf16."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        a, b, *scales = inputs
        return multiply(a, b, config, by_row=True, scales=scales, kind=torch.bfloat16)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        a, b = inputs[:2]
        yield from tile_configs(*a.shape, b.shape[0], 1)

    return Tuned(lambda inputs: large_first(configs, inputs), launch, tried=FEW)


def residual_product() -> Tuned:
    """``r + x W^T`` of ``(x, w, r)``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, w, r = inputs
        return multiply(x, w, config, by_row=True, residual=r)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        x, w = inputs[:2]
        yield from tile_configs(*x.shape, w.shape[0], x.element_size())

    return Tuned(lambda inputs: large_first(configs, inputs), launch, tried=FEW)


def gated_product() -> Tuned:
    """``silu(x W1) * (x W2)``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, w1, w2 = inputs
        return multiply(x, w1, config, by_row=False, second=w2)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        x, w = inputs[:2]
        yield from tile_configs(*x.shape, w.shape[1], x.element_size(), gated=True)

    return Tuned(lambda inputs: large_first(configs, inputs), launch, tried=FEW)


def normed_products(eps: float) -> Tuned:
    """A norm with a gain, then several products: ``(x, gain, *weights)``."""

    def launch(inputs: Sequence[Tensor], config: Config) -> tuple[Tensor, ...]:
        x, gain, *weights = inputs
        size = triton.next_power_of_2(x.shape[1])
        y = normed(x, gain, None, False, eps, {"BLOCK": size, "WHOLE": 1, "warps": 8})
        return tuple(multiply(y, w, config, by_row=False) for w in weights)

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        x, _, w = inputs[:3]
        yield from tile_configs(*x.shape, w.shape[1], x.element_size())

    return Tuned(lambda inputs: large_first(configs, inputs), launch, tried=FEW)
