"""Matrix products alone: of sizes not chosen for tiles, and as ``nn.Linear`` states them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

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
    """Yield all products."""
    for n in (1024, 2048, 4096, 8192):
        yield matmul(f"mm_{n}", n, n, n)
    yield matmul("mm_1000_bf16", 1000, 1000, 1000, DType.BF16)
    for m, n, k in ((4095, 4095, 4095), (583, 931, 257), (1, 4097, 17), (1, 17, 4097)):
        yield matmul(f"mm_{m}x{n}x{k}", m, n, k)
    for n in (4096, 8192):
        yield scaled(f"scaled_mm_{n}", n, n, n)
    for n in (1024, 4096):
        yield linear_layer(f"linear_f32_{n}", n, n, n, DType.F32)
        yield linear_layer(f"linear_tf32_{n}", n, n, n, DType.F32, tf32=True)
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
    return Workload(name, text, inputs, build, module, dtype, natives, family="product")


def linear_layer(
    name: str, m: int, n: int, k: int, dtype: DType = DType.F16, *, tf32: bool = False
) -> Workload:
    """``X(m,k) W(n,k)^T``: weights as ``nn.Linear`` stores them. ``tf32``: factors of f32 are
    rounded to TF32."""

    def build(g: GraphBuilder, x: Tensor, w: Tensor) -> Tensor:
        return g.matmul(x, g.transpose(w), tf32=tf32)

    def rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    inputs = (InputSpec("x", (m, k)), InputSpec("w", (n, k), std=float(k) ** -0.5, weight=True))
    kind = "TF32" if tf32 else dtype.value
    text = f"linear layer X({m},{k}) W({n},{k})^T" + (f", {kind}" if dtype is DType.F32 else "")
    natives = (Native("rows", rows, _other_order, attention=False),)
    family = "" if dtype is DType.F32 and not tf32 else "linear"
    return Workload(
        name, text, inputs, build, _by_columns, dtype, natives, tf32=tf32, family=family
    )


def scaled(name: str, m: int, n: int, k: int) -> Workload:
    """``A(m,k) B(n,k)^T`` of 8-bit floats, with a scale for each tensor, in bf16."""

    def build(g: GraphBuilder, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
        return g.cast((a @ g.transpose(b)) * scale_a * scale_b, DType.BF16)

    def multiply(fast: bool) -> Callable[..., torch.Tensor]:
        def module(a: Any, b: Any, scale_a: Any, scale_b: Any) -> torch.Tensor:
            import torch

            scaled_mm = getattr(torch, "_scaled_mm")  # noqa: B009 (PyTorch has no other name)
            kind = torch.bfloat16
            return scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=kind, use_fast_accum=fast)

        return module

    def exact(a: Any, b: Any, scale_a: Any, scale_b: Any) -> torch.Tensor:
        return (a @ b.t()) * scale_a * scale_b

    inputs = (
        InputSpec("a", (m, k)),
        InputSpec("b", (n, k), weight=True),
        InputSpec("scale_a", (), std=0.0, mean=0.5, dtype=DType.F32),
        InputSpec("scale_b", (), std=0.0, mean=float(k) ** -0.5, dtype=DType.F32, weight=True),
    )
    text = f"scaled matmul A({m},{k}) B({n},{k})^T, {DType.F8E4M3.value}"
    natives = (Native("fast-accum", multiply(fast=True), attention=False),)
    module = multiply(fast=False)
    return Workload(
        name, text, inputs, build, module, DType.F8E4M3, natives, exact, family="scaled_product"
    )


def _by_columns(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.linear(x, w)


def _other_order(inputs: Inputs) -> Inputs:
    """The form with the right factor transposed in memory."""
    left, right = inputs
    return left, right.t().contiguous()
