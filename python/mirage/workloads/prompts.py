"""Programs over many tokens at once: attention of whole prompts, products of 2048 rows with the ops
that are fused with them, and layers.

Prompts have one sequence, and 32 query heads on 8 heads of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.scalar import BinaryFn
from mirage.workloads.layers import LLAMA3_8B, Layer
from mirage.workloads.linear import gated_mlp
from mirage.workloads.native import Native
from mirage.workloads.served import rms_qkv
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-5


def prompts() -> Iterator[Workload]:
    """Yield the attention of all prompts."""
    for d in (64, 128, 256):
        for tokens in (1024, 4096, 16384):
            for causal in (False, True):
                name = f"prompt_d{d}_s{tokens}" + ("_causal" if causal else "")
                yield prompt_attention(name, 32, 8, tokens, d, causal)
    s = LLAMA3_8B
    # kernels that others have for these families are for few rows, or for many
    qkv = rms_qkv("rms_qkv_m2048", 2048, s.hidden, s.hidden, s.kv)
    yield replace(qkv, family="norm_products")
    gate_up = gated_mlp("gate_up_m2048", 2048, s.hidden, s.ffn)
    yield replace(gate_up, family="gated_product")
    yield projection_residual("down_residual_m2048", 2048, s.ffn, s.hidden)
    yield projection_residual("output_residual_m2048", 2048, s.hidden, s.hidden)
    for tokens in (256, 2048):
        yield llama_prompt(f"llama3_8b_prompt_t{tokens}", tokens, s)


def _weight(name: str, rows: int, columns: int) -> InputSpec:
    return InputSpec(name, (rows, columns), std=float(rows) ** -0.5, weight=True)


def _attend(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """``q (kv_heads, group, tokens, d)``, ``k``, ``v (kv_heads, tokens, d)``."""
    kv_heads, group, tokens, d = q.shape

    def shared(x: Tensor) -> Tensor:
        x = g.reshape(x, (kv_heads, 1, tokens, d))
        return g.broadcast(x, (kv_heads, group, tokens, d))

    scores = (q @ g.transpose(shared(k))) * d**-0.5
    if causal:
        position = g.iota(tokens)
        rows, keys = g.reshape(position, (tokens, 1)), g.reshape(position, (1, tokens))
        scores = scores + g.bias(g.cast(g.binary(BinaryFn.LE, keys, rows), q.dtype))
    return g.softmax(scores) @ shared(v)


def _fused(q: Any, k: Any, v: Any, causal: bool) -> torch.Tensor:
    import torch

    fused = torch.nn.functional.scaled_dot_product_attention
    return fused(q, k, v, is_causal=causal, enable_gqa=True)


def prompt_attention(
    name: str, heads: int, kv_heads: int, tokens: int, d: int, causal: bool
) -> Workload:
    """Attention of a whole prompt as models call it: PyTorch's fused attention with heads that
    share keys and values."""
    group = heads // kv_heads

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (g.reshape(x, x.shape[1:]) for x in (q, k, v))
        y = _attend(g, g.reshape(q, (kv_heads, group, tokens, d)), k, v, causal)
        return g.reshape(y, (1, heads, tokens, d))

    def module(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return _fused(q, k, v, causal)

    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        parts = zip(q.split(group, 1), k.split(1, 1), v.split(1, 1), strict=True)
        return torch.cat([_fused(*part, causal) for part in parts], 1)

    inputs = (
        InputSpec("q", (1, heads, tokens, d)),
        InputSpec("k", (1, kv_heads, tokens, d)),
        InputSpec("v", (1, kv_heads, tokens, d)),
    )
    what = "causal attention" if causal else "attention"
    text = f"{what} of {tokens} tokens, {heads} heads of {d} on {kv_heads}"
    natives = (Native("", module),)
    family = "causal_prompt" if causal else "grouped_attention"
    return Workload(name, text, inputs, build, module, natives=natives, exact=exact, family=family)


def projection_residual(name: str, m: int, k: int, n: int) -> Workload:
    """``r + x W``, with weights as ``nn.Linear`` stores them."""

    def build(g: GraphBuilder, x: Tensor, w: Tensor, r: Tensor) -> Tensor:
        return r + x @ g.transpose(w)

    def module(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        import torch

        return r + torch.nn.functional.linear(x, w)

    weight = InputSpec("w", (n, k), std=float(k) ** -0.5, weight=True)
    inputs = (InputSpec("x", (m, k)), weight, InputSpec("r", (m, n)))
    text = f"R({m},{n}) + X({m},{k}) W({n},{k})^T"
    return Workload(name, text, inputs, build, module, family="linear_residual")


def llama_prompt(name: str, tokens: int, s: Layer) -> Workload:
    """A layer of Llama over a prompt: RMSNorm, causal attention with rotary embeddings, RMSNorm,
    SwiGLU, both residual."""
    group = s.heads // s.kv_heads

    def build(g: GraphBuilder, x: Tensor, *rest: Tensor) -> Tensor:
        wq, wk, wv, wo, w1, w2, w3, g1, g2, cos, sin = rest

        def heads(y: Tensor) -> Tensor:
            y = g.reshape(y, (tokens, y.shape[1] // s.d, s.d))
            return g.transpose(y, 1, 0, 2)

        def rotated(y: Tensor) -> Tensor:
            half = (*y.shape[:-1], s.d // 2)
            low, high = g.slice(y, (0, 0, 0), half), g.slice(y, (0, 0, s.d // 2), half)
            return y * cos + g.concat([-high, low], 2) * sin

        h = g.rms_norm(x, g1, eps=_EPS)
        q = g.reshape(rotated(heads(h @ wq)), (s.kv_heads, group, tokens, s.d))
        y = _attend(g, q, rotated(heads(h @ wk)), heads(h @ wv), True)
        y = g.transpose(g.reshape(y, (s.heads, tokens, s.d)), 1, 0, 2)
        x = x + g.reshape(y, (tokens, s.heads * s.d)) @ wo
        h = g.rms_norm(x, g2, eps=_EPS)
        return x + (g.silu(h @ w1) * (h @ w2)) @ w3

    def module(x: Any, *rest: Any) -> torch.Tensor:
        import torch
        from torch.nn import functional

        wq, wk, wv, wo, w1, w2, w3, g1, g2, cos, sin = rest

        def heads(y: Any) -> Any:
            return y.unflatten(1, (-1, s.d)).transpose(0, 1)

        def rotated(y: Any) -> Any:
            low, high = y.chunk(2, dim=-1)
            return y * cos + torch.cat([-high, low], dim=-1) * sin

        h = functional.rms_norm(x, (s.hidden,), g1, _EPS)
        q, k, v = rotated(heads(h @ wq)), rotated(heads(h @ wk)), heads(h @ wv)
        y = _fused(q[None], k[None], v[None], True)[0]
        x = x + y.transpose(0, 1).flatten(1) @ wo
        h = functional.rms_norm(x, (s.hidden,), g2, _EPS)
        return x + (functional.silu(h @ w1) * (h @ w2)) @ w3

    inputs = (
        InputSpec("x", (tokens, s.hidden)),
        _weight("wq", s.hidden, s.heads * s.d),
        _weight("wk", s.hidden, s.kv),
        _weight("wv", s.hidden, s.kv),
        _weight("wo", s.heads * s.d, s.hidden),
        _weight("w1", s.hidden, s.ffn),
        _weight("w2", s.hidden, s.ffn),
        _weight("w3", s.ffn, s.hidden),
        *(InputSpec(n, (s.hidden,), std=0.1, mean=1.0, weight=True) for n in ("g1", "g2")),
        *(InputSpec(n, (tokens, s.d)) for n in ("cos", "sin")),
    )
    text = f"layer of Llama-3-8B over a prompt of {tokens} tokens"
    natives = (Native("", module, alone=False),)
    return Workload(name, text, inputs, build, module, natives=natives)
