"""Matrix products alone: of sizes that nobody chose for tiles, and as ``nn.Linear`` states them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.scalar import DType
from mirage.workloads.native import Inputs, Native
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

LAYERS = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336))
"""``(features out, features in)`` of Llama-3-8B: output, QKV, gate and up, down."""


def products() -> Iterator[Workload]:
    """All of them."""
    for n in (1024, 2048, 4096, 8192):
        yield matmul(f"mm_{n}", n, n, n)
    yield matmul("mm_1000_bf16", 1000, 1000, 1000, DType.BF16)
    for m, n, k in ((4095, 4095, 4095), (583, 931, 257), (1, 4097, 17), (1, 17, 4097)):
        yield matmul(f"mm_{m}x{n}x{k}", m, n, k)
    for m in (16, 64, 128, 256, 512, 2048, 4096):
        for n, k in LAYERS:
            yield linear_layer(f"linear_m{m}_{n}x{k}", m, n, k)


def matmul(name: str, m: int, n: int, k: int, dtype: DType = DType.F16) -> Workload:
    """``A(m,k) B(k,n)``, both stored row by row."""

    def build(g: GraphBuilder, a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    def module(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b

    inputs = (InputSpec("a", (m, k)), InputSpec("b", (k, n), std=float(k) ** -0.5, weight=True))
    text = f"matmul A({m},{k}) B({k},{n}), {dtype.value}"
    natives = (Native("columns", _by_columns, _other_order, attention=False),)
    return Workload(name, text, inputs, build, module, dtype, natives)


def linear_layer(name: str, m: int, n: int, k: int) -> Workload:
    """``X(m,k) W(n,k)^T``: weights as ``nn.Linear`` stores them."""

    def build(g: GraphBuilder, x: Tensor, w: Tensor) -> Tensor:
        return x @ g.transpose(w)

    def rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    inputs = (InputSpec("x", (m, k)), InputSpec("w", (n, k), std=float(k) ** -0.5, weight=True))
    text = f"linear layer X({m},{k}) W({n},{k})^T"
    natives = (Native("rows", rows, _other_order, attention=False),)
    return Workload(name, text, inputs, build, _by_columns, natives=natives)


def _by_columns(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.linear(x, w)


def _other_order(inputs: Inputs) -> Inputs:
    """With the right factor transposed in memory."""
    left, right = inputs
    return left, right.t().contiguous()
