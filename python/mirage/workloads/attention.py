"""Attention in its regimes: grouped, multi-query, multi-head; decoding, speculative and prefill;
with QK normalisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.scalar import BinaryFn
from mirage.workloads.native import Native, attend, flexible, keys_by_row
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-6


def attention() -> Iterator[Workload]:
    """Yield all attention programs."""
    for bs in (1, 8, 16):
        for kv in (4096, 8192):
            yield plain_attention(
                f"gqa_bs{bs}_kv{kv}", "grouped-query attention", 2 * bs, 256, 64, kv
            )
    for bs in (1, 8, 16):
        yield qk_norm_attention(f"qknorm_bs{bs}", 2 * bs, 256, 64, 4096)
    for bs in (1, 8, 16):
        yield plain_attention(f"mha_bs{bs}", "multi-head attention, 16 rows", 32 * bs, 16, 64, 4096)
        yield plain_attention(
            f"mha_prefill_bs{bs}", "multi-head attention, prefill", 32 * bs, 256, 64, 1024
        )
    for bs in (1, 8, 16):
        yield plain_attention(
            f"mqa_bs{bs}", "multi-query attention, speculative", bs, 1024, 64, 4096
        )
        yield plain_attention(
            f"mqa_decode_bs{bs}", "multi-query attention, decoding", bs, 32, 64, 4096
        )
        yield plain_attention(
            f"mqa_prefill_bs{bs}", "multi-query attention, prefill", bs, 4096, 64, 4096
        )
        yield plain_attention(
            f"gqa_decode_bs{bs}", "grouped-query attention, decoding", 2 * bs, 8, 64, 4096
        )
    yield plain_attention("docs_attn", "64 heads, one token", 64, 1, 128, 4096)
    for b in (1, 8, 16):
        yield scaled_attention(
            f"decode_b{b}", "one token, 64 query heads on 8 KV heads, scaled", 8 * b, 8, 128, 8192
        )
    yield scaled_attention("prefill", "32 heads, 4096 tokens, scaled", 32, 4096, 128, 4096)
    yield latent_attention("mla_decode_b1", 1, 128, 576, 512, 4096)
    what = "32 heads, 4096 tokens, scaled"
    yield scaled_attention(
        "prefill_causal_mask", f"{what}, causal by an additive mask", 32, 4096, 128, 4096, True
    )
    yield positional_attention("prefill_causal", f"{what}, causal", 32, 4096, 128)
    yield positional_attention("prefill_window", f"{what}, sliding window", 32, 4096, 128, 1024)


def plain_attention(name: str, what: str, heads: int, rows: int, d: int, kv: int) -> Workload:
    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return g.softmax(q @ k) @ v

    def module(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.softmax(q @ k, dim=-1) @ v

    def native(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, 1.0)

    shapes = f"Q({heads},{rows},{d}) K({heads},{d},{kv}) V({heads},{kv},{d})"
    inputs = (
        InputSpec("q", (heads, rows, d)),
        InputSpec("k", (heads, d, kv), _unit(d)),
        InputSpec("v", (heads, kv, d)),
    )
    text = f"{what}: softmax(Q K) V, {shapes}"
    natives = (Native("", native, keys_by_row),)
    return Workload(name, text, inputs, build, module, natives=natives, family="attention")


def qk_norm_attention(name: str, heads: int, rows: int, d: int, kv: int) -> Workload:
    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        squares = g.square(g.cast(k, "float32"))
        scale = g.rsqrt(g.mean(squares, 1) + _EPS)
        normed = g.cast(g.cast(k, "float32") * scale, k.dtype)
        return g.softmax(g.rms_norm(q, eps=_EPS) @ normed) @ v

    def module(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        norm = torch.nn.functional.rms_norm
        k = norm(k.transpose(1, 2), (d,), eps=_EPS).transpose(1, 2)
        return torch.softmax(norm(q, (d,), eps=_EPS) @ k, dim=-1) @ v

    def native(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        norm = torch.nn.functional.rms_norm
        return attend(norm(q, (d,), eps=_EPS), norm(k, (d,), eps=_EPS), v, 1.0)

    shapes = f"Q({heads},{rows},{d}) K({heads},{d},{kv}) V({heads},{kv},{d})"
    inputs = (
        InputSpec("q", (heads, rows, d)),
        InputSpec("k", (heads, d, kv)),
        InputSpec("v", (heads, kv, d)),
    )
    text = f"attention with rms_norm over the head dimension of Q and of K first, {shapes}"
    natives = (Native("", native, keys_by_row, alone=False),)
    return Workload(name, text, inputs, build, module, natives=natives, family="normed_attention")


def scaled_attention(
    name: str, what: str, heads: int, rows: int, d: int, kv: int, causal: bool = False
) -> Workload:
    """K is stored as a KV cache stores it, ``(heads, kv, d)``."""
    scale = d**-0.5

    def build(
        g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        scores = (q @ g.transpose(k)) * scale
        return g.softmax(scores if mask is None else scores + mask) @ v

    def module(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        import torch

        scores = (q @ k.transpose(1, 2)) * scale
        return torch.softmax(scores if mask is None else scores + mask, dim=-1) @ v

    def native(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return attend(q, k, v, scale, causal)

    inputs = [
        InputSpec("q", (heads, rows, d)),
        InputSpec("k", (heads, kv, d)),
        InputSpec("v", (heads, kv, d)),
    ]
    if causal:
        inputs.append(InputSpec("mask", (rows, kv), causal=True))
    text = f"attention, {what}: Q({heads},{rows},{d}) K,V({heads},{kv},{d})"
    natives = (Native("", native),)
    family = "" if causal else "scaled_attention"
    return Workload(name, text, tuple(inputs), build, module, natives=natives, family=family)


def latent_attention(
    name: str, batch: int, heads: int, d: int, kept: int, kv: int, scale: float = 192**-0.5
) -> Workload:
    """One token of multi-head latent attention with absorbed projections (DeepSeek-V2, section
    2.1): all heads share one row of ``d`` numbers for each key, the first ``kept`` of which are
    values."""

    def build(g: GraphBuilder, q: Tensor, latents: Tensor) -> Tensor:
        values = g.slice(latents, (0, 0, 0), (batch, kv, kept))
        return g.softmax((q @ g.transpose(latents)) * scale) @ values

    def module(q: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
        import torch

        scores = (q @ latents.transpose(1, 2)) * scale
        return torch.softmax(scores, dim=-1) @ latents[..., :kept]

    def native(q: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
        return attend(q, latents, latents[..., :kept], scale)

    text = f"latent attention, one token: Q({batch},{heads},{d}), latents({batch},{kv},{d})"
    inputs = (InputSpec("q", (batch, heads, d)), InputSpec("latents", (batch, kv, d)))
    natives = (Native("", native),)
    family = f"latent_attention {kept}"
    return Workload(name, text, inputs, build, module, natives=natives, family=family)


def positional_attention(
    name: str, what: str, heads: int, tokens: int, d: int, window: int | None = None
) -> Workload:
    """Each token sees itself and the tokens before it, or only the last ``window`` of them; the
    mask is computed from positions."""
    scale = d**-0.5

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        position = g.iota(tokens)
        rows, keys = g.reshape(position, (tokens, 1)), g.reshape(position, (1, tokens))
        seen = g.binary(BinaryFn.LE, keys, rows)
        if window is not None:
            near = g.binary(BinaryFn.LT, rows - keys, window)
            seen = g.binary(BinaryFn.AND, seen, near)
        scores = (q @ g.transpose(k)) * scale
        return g.softmax(scores + g.bias(g.cast(seen, q.dtype))) @ v

    def module(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        scores = (q @ k.transpose(1, 2)) * scale
        return torch.softmax(scores.masked_fill(~visible(q), -torch.inf), dim=-1) @ v

    def visible(q: torch.Tensor) -> torch.Tensor:
        import torch

        distance = torch.arange(tokens, device=q.device)
        distance = distance[:, None] - distance[None, :]
        return (distance >= 0) & (distance < (tokens if window is None else window))

    def native(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        if window is None:
            return attend(q, k, v, scale, True)
        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(q[None], k[None], v[None], attn_mask=visible(q), scale=scale)[0]

    shape = (heads, tokens, d)
    inputs = tuple(InputSpec(n, shape) for n in "qkv")
    seen = "" if window is None else f", {window} tokens"
    text = f"attention, {what}{seen}: Q,K,V({heads},{tokens},{d})"
    natives = (Native("", native), flexible(scale, window))
    family = "causal_attention" if window is None else f"windowed_attention {window}"
    return Workload(name, text, inputs, build, module, natives=natives, family=family)


def _unit(d: int) -> float:
    """Standard deviation of K for which unscaled scores have unit variance."""
    return float(d) ** -0.5
