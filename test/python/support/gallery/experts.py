"""Mixtures of experts with fixed routing weights, and the linear parts of state space models."""

from __future__ import annotations

import torch

from gallery.case import Case, Layer, Width, normal
from gallery.written import DenseExperts, MambaProjections, SharedExpertMoE


def _routing(tokens: int, experts: int, chosen: int) -> torch.Tensor:
    """Return the weights of the ``chosen`` best experts of each token, and zeros for the others."""
    scores = torch.softmax(torch.randn(tokens, experts), dim=-1)
    best = scores.topk(chosen, dim=-1)
    weights = torch.zeros_like(scores).scatter(1, best.indices, best.values)
    return weights / weights.sum(-1, keepdim=True)


def _mixtral(width: Width) -> Layer:
    tokens, experts, size, inner = (8, 4, 64, 96) if width == "small" else (16, 8, 4096, 14336 // 4)
    return Layer(
        DenseExperts(experts, size, inner), (normal(tokens, size), _routing(tokens, experts, 2))
    )


def _shared(width: Width) -> Layer:
    tokens, experts, size, inner, shared = (
        (8, 4, 64, 32, 96) if width == "small" else (16, 16, 2048, 1408, 5632)
    )
    return Layer(
        SharedExpertMoE(experts, size, inner, shared),
        (normal(tokens, size), _routing(tokens, experts, 4 if width == "real" else 2)),
    )


def _mamba(width: Width) -> Layer:
    tokens, size, state, rank = (16, 64, 8, 4) if width == "small" else (128, 2560, 16, 160)
    return Layer(
        MambaProjections(size, 2 * size, state, rank),
        (normal(1, tokens, size), normal(1, tokens, 2 * size)),
    )


CASES = (
    Case("moe_dense", "written: SwiGLU experts as in Mixtral, dense, routing weights given",
         torch.bfloat16, _mixtral),
    Case("moe_shared", "written: experts beside a gated one as in Qwen2-MoE, dense",
         torch.float16, _shared),
    Case("mamba_projections", "written after Mamba without its convolution and scan",
         torch.bfloat16, _mamba),
)  # fmt: skip
