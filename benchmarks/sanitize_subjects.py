#!/usr/bin/env python3
"""Small programs for compute-sanitizer, of families of kernels that the catalogue has only at sizes
that take too long under it, or not at all.

    .venv/bin/python benchmarks/sanitize_subjects.py --out build/sanitized

compiles them for ``sanitize.py``. Each is a function of PyTorch and example inputs on a device.
Indices and lengths are valid, so no result may be NaN.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]
F8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Subject:
    """``program(*inputs(device))``, compiled with ``tf32`` products if PyTorch is told to."""

    program: Callable[..., Tensor]
    inputs: Callable[[str], Inputs]
    tf32: bool = False


def _normal(device: str, *shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(device=device, dtype=dtype)


def _below(device: str, size: int, *shape: int) -> Tensor:
    """Different numbers, if ``size`` permits."""
    count = torch.Size(shape).numel()
    generator = torch.Generator().manual_seed(size)
    drawn = torch.randperm(size, generator=generator).repeat(-(-count // size))[:count]
    return drawn.reshape(shape).to(device)


def _fp8(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    scaled_mm = getattr(torch, "_scaled_mm")  # noqa: B009 (PyTorch has no other name)
    return scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=torch.bfloat16)


def _experts(x: Tensor, scores: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Each token by the two experts with the largest scores (all tokens by all experts, weighted
    by 0 if not chosen)."""
    gates, chosen = torch.topk(torch.softmax(scores.float(), -1), 2, dim=-1)
    y = F.silu(torch.einsum("tk,tekn->ten", x, w1[chosen]))
    y = torch.einsum("ten,tenk->tek", y, w2[chosen])
    return (y * gates[..., None].to(y.dtype)).sum(1)


def _paged(q: Tensor, k: Tensor, v: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
    keys, values = (x[rows].transpose(1, 2) for x in (k, v))
    seen = torch.arange(rows.shape[1], device=q.device) < lengths[:, None, None, None]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen, enable_gqa=True)


def _scatter(x: Tensor, index: Tensor, update: Tensor) -> Tensor:
    return x.index_copy(0, index, update) * 2.0


def _products(rows: int, columns: int, depth: int, dtype: torch.dtype) -> Callable[[str], Inputs]:
    return lambda device: (
        _normal(device, rows, depth, dtype=dtype),
        _normal(device, columns, depth, dtype=dtype),
    )


SUBJECTS = {
    "fp8_product": Subject(
        _fp8,
        lambda d: (
            *_products(256, 512, 512, F8)(d),
            torch.tensor(0.5, device=d),
            torch.tensor(0.25, device=d),
        ),
    ),
    "tf32_product": Subject(F.linear, _products(256, 512, 512, torch.float32), tf32=True),
    "bf16_product": Subject(F.linear, _products(192, 512, 512, torch.bfloat16)),
    "cluster_product": Subject(
        lambda a, b: a @ b,
        lambda d: (_normal(d, 1000, 1000), _normal(d, 1000, 1000)),
    ),
    "experts": Subject(
        _experts,
        lambda d: (
            _normal(d, 16, 128),
            _normal(d, 16, 8),
            _normal(d, 8, 128, 256) * 0.1,
            _normal(d, 8, 256, 128) * 0.1,
        ),
    ),
    "paged_decode": Subject(
        _paged,
        lambda d: (
            _normal(d, 4, 8, 1, 64),
            _normal(d, 4 * 256, 2, 64),
            _normal(d, 4 * 256, 2, 64),
            _below(d, 4 * 256, 4, 256),
            _below(d, 200, 4) + 1,
        ),
    ),
    "argsort": Subject(
        lambda x: torch.argsort(x, dim=-1, stable=True), lambda d: (_normal(d, 1024, 256).float(),)
    ),
    "topk": Subject(
        lambda x: torch.topk(x, 8, dim=-1).values, lambda d: (_normal(d, 512, 1024).float(),)
    ),
    "scan": Subject(lambda x: x.cumsum(-1), lambda d: (_normal(d, 64, 4096).float(),)),
    "gather": Subject(
        lambda x, i: F.silu(x[i]) + 1.0, lambda d: (_normal(d, 333, 256), _below(d, 333, 200))
    ),
    "scatter": Subject(
        _scatter,
        lambda d: (_normal(d, 333, 256), _below(d, 333, 64), _normal(d, 64, 256)),
    ),
    "scatter_add": Subject(
        lambda x, i, y: x.index_add(0, i, y),
        lambda d: (_normal(d, 65, 64).float(), _below(d, 65, 100), _normal(d, 100, 64).float()),
    ),
    "long_norm": Subject(
        lambda x, w: F.rms_norm(x, (65536,), w, 1e-6),
        lambda d: (_normal(d, 16, 65536), _normal(d, 65536)),
    ),
    "integers": Subject(lambda x: x.sum(-1), lambda d: (_below(d, 100003, 64, 512),)),
}


def main() -> int:
    import mirage

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the artifacts")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, subject in SUBJECTS.items():
        torch.set_float32_matmul_precision("high" if subject.tf32 else "highest")
        target = folder / f"{name}.mirage"
        mirage.export(
            subject.program, *subject.inputs("cpu"), path=target, options={"candidates": 1}
        )
        if not any(target.rglob("*.ptx")):
            print(f"error: nothing of {name} was compiled", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
