"""Softmax and norms of rows that no single SM can hold, 256 MB in all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.workloads.linear import softmax_rows
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-6
_ELEMENTS = 1 << 27


def long_rows() -> Iterator[Workload]:
    """Yield programs of rows of 65,536 and of 262,144 elements."""
    for n in (65536, 262144):
        rows = _ELEMENTS // n
        yield softmax_rows(f"softmax_n{n}", rows, n)
        yield rms_norm(f"rms_norm_n{n}", rows, n)
        yield layer_norm(f"layer_norm_n{n}", rows, n)


def _gain(n: int) -> InputSpec:
    return InputSpec("gain", (n,), std=0.1, mean=1.0, weight=True)


def rms_norm(name: str, rows: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, gain: Tensor) -> Tensor:
        return g.rms_norm(x, gain, eps=_EPS)

    def module(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.rms_norm(x, (n,), gain, eps=_EPS)

    inputs = (InputSpec("x", (rows, n)), _gain(n))
    text = f"rms_norm of {rows} rows of {n}, with gain"
    return Workload(name, text, inputs, build, module, family="rms_norm")


def layer_norm(name: str, rows: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        return g.layer_norm(x, gain, bias, eps=_EPS)

    def module(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.layer_norm(x, (n,), gain, bias, eps=_EPS)

    inputs = (InputSpec("x", (rows, n)), _gain(n), InputSpec("bias", (n,), std=0.1, weight=True))
    text = f"layer_norm of {rows} rows of {n}, with gain and bias"
    return Workload(name, text, inputs, build, module, family="layer_norm")
