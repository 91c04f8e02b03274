"""Normalisation, linear layers and their fusions; softmax alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-6


def linear() -> Iterator[Workload]:
    """Yield all programs without attention."""
    for n in (6144, 4096):
        for bs in (1, 8, 16):
            yield rms_matmul(f"rms_mm{n}_bs{bs}", 2 * bs, 4096, n)
    for m in (1, 8, 16):
        yield lora(f"lora_m{m}", m, 256, 16, 4096)
    for m in (1, 8, 16):
        yield gated_mlp(f"gmlp_m{m}", m, 4096, 4096)
    for bs in (1, 8, 16):
        yield n_transformer(f"ntrans_bs{bs}", 8 * bs, 4096)
    for n in (256, 1024, 4096, 16384, 32768):
        yield softmax_rows(f"softmax_n{n}", 4096, n)
    yield softmax_rows("softmax_m583_n931", 583, 931)
    for m in (1, 8, 16):
        yield rms_swiglu_down(f"rms_swiglu_down_m{m}", m, 4096, 14336)
    for m in (1, 8):
        yield residual_rms_qkv(f"residual_rms_qkv_m{m}", m, 4096, 6144)
    yield layer_norm_linear_gelu("ln_linear_gelu_m8", 8, 1024, 4096)
    yield layer_norm_mlp("ln_mlp_m33", 33, 768, 3072)
    yield low_rank_mlp("lowrank_mlp", 16, 8192, 8, 8192)
    yield expert_layer("moe_experts", 8, 8, 4096)
    yield rms_matmul("rms_gain_mm4096_m8", 8, 4096, 4096, gain=True)


def _weight(name: str, *shape: int) -> InputSpec:
    """A weight that preserves the variance: its last but one dimension is contracted."""
    return InputSpec(name, shape, std=float(shape[-2]) ** -0.5, weight=True)


def _gain(name: str, n: int) -> InputSpec:
    return InputSpec(name, (n,), std=0.1, mean=1.0, weight=True)


def rms_matmul(name: str, m: int, k: int, n: int, gain: bool = False) -> Workload:
    def build(g: GraphBuilder, x: Tensor, *weights: Tensor) -> Tensor:
        return g.rms_norm(x, *weights[:-1], eps=_EPS) @ weights[-1]

    def module(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.rms_norm(x, (k,), *weights[:-1], eps=_EPS) @ weights[-1]

    gains = (_gain("g", k),) if gain else ()
    text = f"rms_norm{' with gain' if gain else ''} X({m},{k}), then W({k},{n})"
    inputs = (InputSpec("x", (m, k)), *gains, _weight("w", k, n))
    return Workload(
        name, text, inputs, build, module, family="rms_gain_matmul" if gain else "rms_matmul"
    )


def lora(name: str, m: int, k: int, rank: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return x @ w + (x @ a) @ b

    def module(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x @ w + (x @ a) @ b

    inputs = (
        InputSpec("x", (m, k)),
        _weight("w", k, n),
        _weight("a", k, rank),
        _weight("b", rank, n),
    )
    text = f"X({m},{k}) W({k},{n}) + (X A({k},{rank})) B({rank},{n})"
    return Workload(name, text, inputs, build, module, family="lora")


def gated_mlp(name: str, m: int, k: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        return g.silu(x @ w1) * (x @ w2)

    def module(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.silu(x @ w1) * (x @ w2)

    inputs = (InputSpec("x", (m, k)), _weight("w1", k, n), _weight("w2", k, n))
    text = f"silu(X({m},{k}) W1({k},{n})) * (X W2)"
    return Workload(name, text, inputs, build, module, family="gated_mlp")


def n_transformer(name: str, m: int, k: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, h: Tensor, a: Tensor) -> Tensor:
        return g.rms_norm(x + a * (g.rms_norm(h, eps=_EPS) + x), eps=_EPS)

    def module(x: torch.Tensor, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        import torch

        norm = torch.nn.functional.rms_norm
        return norm(x + a * (norm(h, (k,), eps=_EPS) + x), (k,), eps=_EPS)

    inputs = (
        InputSpec("x", (m, k)),
        InputSpec("h", (m, k)),
        InputSpec("a", (k,), std=0.1, weight=True),
    )
    text = f"rms(x + a*(rms(h) + x)), {m} rows of {k}"
    return Workload(name, text, inputs, build, module, family="normed_mix")


def softmax_rows(name: str, m: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor) -> Tensor:
        return g.softmax(x)

    def module(x: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.softmax(x, dim=-1)

    inputs = (InputSpec("x", (m, n)),)
    text = f"softmax of {m} rows of {n}"
    return Workload(name, text, inputs, build, module, family="softmax")


def rms_swiglu_down(name: str, m: int, k: int, f: int) -> Workload:
    def build(
        g: GraphBuilder, x: Tensor, gain: Tensor, w1: Tensor, w2: Tensor, w3: Tensor
    ) -> Tensor:
        y = g.rms_norm(x, gain, eps=_EPS)
        return (g.silu(y @ w1) * (y @ w2)) @ w3

    def module(
        x: torch.Tensor, gain: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, w3: torch.Tensor
    ) -> torch.Tensor:
        import torch

        y = torch.nn.functional.rms_norm(x, (k,), gain, eps=_EPS)
        return (torch.nn.functional.silu(y @ w1) * (y @ w2)) @ w3

    weights = (_gain("g", k), _weight("w1", k, f), _weight("w2", k, f), _weight("w3", f, k))
    text = f"rms_norm with gain, silu(x W1)*(x W2), down: x({m},{k}) W1,W2({k},{f}) W3({f},{k})"
    inputs = (InputSpec("x", (m, k)), *weights)
    return Workload(name, text, inputs, build, module, family="rms_swiglu_down")


def residual_rms_qkv(name: str, m: int, k: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, r: Tensor, gain: Tensor, w: Tensor) -> Tensor:
        return g.rms_norm(x + r, gain, eps=_EPS) @ w

    def module(
        x: torch.Tensor, r: torch.Tensor, gain: torch.Tensor, w: torch.Tensor
    ) -> torch.Tensor:
        import torch

        return torch.nn.functional.rms_norm(x + r, (k,), gain, eps=_EPS) @ w

    inputs = (InputSpec("x", (m, k)), InputSpec("r", (m, k)), _gain("g", k), _weight("w", k, n))
    text = f"rms_norm(x + r) with gain, then W({k},{n}), {m} rows"
    return Workload(name, text, inputs, build, module, family="residual_rms_linear")


def layer_norm_linear_gelu(name: str, m: int, k: int, n: int) -> Workload:
    eps = 1e-5

    def build(
        g: GraphBuilder, x: Tensor, gain: Tensor, bias: Tensor, w: Tensor, b: Tensor
    ) -> Tensor:
        return g.gelu(g.layer_norm(x, gain, bias, eps=eps) @ w + b)

    def module(
        x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor, w: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        import torch

        return torch.nn.functional.gelu(
            torch.nn.functional.layer_norm(x, (k,), gain, bias, eps) @ w + b
        )

    biases = (
        InputSpec("bias", (k,), std=0.1, weight=True),
        InputSpec("b", (n,), std=0.1, weight=True),
    )
    inputs = (InputSpec("x", (m, k)), _gain("g", k), biases[0], _weight("w", k, n), biases[1])
    text = f"layer_norm({k}) with gain and bias, W({k},{n}), bias, gelu, {m} rows"
    return Workload(name, text, inputs, build, module, family="norm_linear_gelu")


def layer_norm_mlp(name: str, m: int, k: int, f: int) -> Workload:
    eps = 1e-5

    def build(g: GraphBuilder, x: Tensor, *rest: Tensor) -> Tensor:
        gain, bias, w1, b1, w2, b2 = rest
        return g.gelu(g.layer_norm(x, gain, bias, eps=eps) @ w1 + b1) @ w2 + b2

    def module(x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        import torch

        gain, bias, w1, b1, w2, b2 = rest
        y = torch.nn.functional.layer_norm(x, (k,), gain, bias, eps)
        return torch.nn.functional.gelu(y @ w1 + b1) @ w2 + b2

    def bias(name: str, n: int) -> InputSpec:
        return InputSpec(name, (n,), std=0.1, weight=True)

    weights = (
        _gain("g", k), bias("bias", k), _weight("w1", k, f), bias("b1", f), _weight("w2", f, k),
        bias("b2", k),
    )  # fmt: skip
    text = f"layer_norm({k}), W1({k},{f}), gelu, W2({f},{k}), biases, {m} rows"
    inputs = (InputSpec("x", (m, k)), *weights)
    return Workload(name, text, inputs, build, module, family="norm_mlp")


def low_rank_mlp(name: str, m: int, k: int, rank: int, n: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return (x @ a) @ b

    def module(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (x @ a) @ b

    inputs = (InputSpec("x", (m, k)), _weight("a", k, rank), _weight("b", rank, n))
    text = f"X({m},{k}) A({k},{rank}) B({rank},{n})"
    return Workload(name, text, inputs, build, module, family="low_rank")


def expert_layer(name: str, experts: int, m: int, k: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return g.silu(x @ a) @ b

    def module(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.silu(x @ a) @ b

    inputs = (
        InputSpec("x", (experts, m, k)),
        _weight("a", experts, k, k),
        _weight("b", experts, k, k),
    )
    text = f"expert layer: silu(X({experts},{m},{k}) A) B, A,B({experts},{k},{k})"
    return Workload(name, text, inputs, build, module, family="expert_layer")
