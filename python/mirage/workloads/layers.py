"""Whole transformer layers while one token is decoded: the models of the literature's end-to-end
runs.

Rows are sequences. Keys and values of earlier tokens come as caches ``(batch, kv_heads, cached,
d)``; the new token's are appended. Shapes are those of the published models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.workloads.native import Native
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-5


@dataclass(frozen=True)
class Layer:
    """The sizes of a layer."""

    hidden: int
    heads: int
    kv_heads: int
    d: int
    ffn: int
    cached: int = 4096
    rank: int = 16  # rank of low-rank adapters, if there are any

    @property
    def kv(self) -> int:
        """Width of keys and of values."""
        return self.kv_heads * self.d


LLAMA3_8B = Layer(4096, 32, 8, 128, 14336)
CHAMELEON_7B = Layer(4096, 32, 32, 128, 11008)
GPT3_7B = Layer(4096, 32, 32, 128, 16384)
NGPT_1B = Layer(1280, 20, 20, 64, 5120)


def layers() -> Iterator[Workload]:
    """Yield all layers."""
    for batch in (1, 8, 16):
        yield llama_layer(f"llama3_8b_layer_bs{batch}", batch, LLAMA3_8B)
        yield chameleon_layer(f"chameleon_7b_layer_bs{batch}", batch, CHAMELEON_7B)
        yield gpt_lora_layer(f"gpt3_7b_lora_layer_bs{batch}", batch, GPT3_7B)
        yield ngpt_layer(f"ngpt_1b_layer_bs{batch}", batch, NGPT_1B)


# ---- inputs


def _weight(name: str, rows: int, columns: int) -> InputSpec:
    return InputSpec(name, (rows, columns), std=float(rows) ** -0.5, weight=True)


def _vector(name: str, n: int, mean: float = 1.0) -> InputSpec:
    return InputSpec(name, (n,), std=0.1, mean=mean, weight=True)


def _attention_inputs(batch: int, s: Layer) -> tuple[InputSpec, ...]:
    """The row of each sequence, its caches, and the four projections."""
    cache = (batch, s.kv_heads, s.cached, s.d)
    return (
        InputSpec("x", (batch, s.hidden)),
        InputSpec("k_cache", cache),
        InputSpec("v_cache", cache),
        _weight("wq", s.hidden, s.heads * s.d),
        _weight("wk", s.hidden, s.kv),
        _weight("wv", s.hidden, s.kv),
        _weight("wo", s.heads * s.d, s.hidden),
    )


def _swiglu_inputs(s: Layer) -> tuple[InputSpec, ...]:
    return (
        _weight("w1", s.hidden, s.ffn),
        _weight("w2", s.hidden, s.ffn),
        _weight("w3", s.ffn, s.hidden),
    )


# ---- attention with caches, as a graph and in PyTorch


def _attend(
    g: GraphBuilder, s: Layer, q: Tensor, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor
) -> Tensor:
    """``q (batch, heads*d)``, ``k``, ``v (batch, kv)`` to ``(batch, heads*d)``."""
    batch = q.shape[0]
    keys = g.concat([k_cache, g.reshape(k, (batch, s.kv_heads, 1, s.d))], 2)
    values = g.concat([v_cache, g.reshape(v, (batch, s.kv_heads, 1, s.d))], 2)
    grouped = g.reshape(q, (batch, s.kv_heads, s.heads // s.kv_heads, s.d))
    weights = g.softmax((grouped @ g.transpose(keys)) * float(s.d) ** -0.5)
    return g.reshape(weights @ values, (batch, s.heads * s.d))


def _torch_attend(
    s: Layer, fused: bool, q: Any, k: Any, v: Any, k_cache: Any, v_cache: Any
) -> torch.Tensor:
    import torch

    keys = torch.cat([k_cache, k.unflatten(-1, (s.kv_heads, s.d)).unsqueeze(2)], dim=2)
    values = torch.cat([v_cache, v.unflatten(-1, (s.kv_heads, s.d)).unsqueeze(2)], dim=2)
    grouped = q.unflatten(-1, (s.kv_heads, s.heads // s.kv_heads, s.d))
    if fused:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(grouped, keys, values, scale=s.d**-0.5).flatten(1)
    weights = torch.softmax(grouped @ keys.transpose(-1, -2) * s.d**-0.5, dim=-1)
    return (weights @ values).flatten(1)


def _natives(module: Callable[..., Any]) -> tuple[Native, ...]:
    """Forms with the library's attention, in which the heads that share keys are rows."""
    return (Native("", partial(module, fused=True), alone=False),)


def _per_head(g: GraphBuilder, x: Tensor, heads: int, apply: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``apply`` to ``x`` as ``(batch, heads, d)``."""
    batch, width = x.shape
    return g.reshape(apply(g.reshape(x, (batch, heads, width // heads))), (batch, width))


# ---- Llama


def llama_layer(name: str, batch: int, s: Layer) -> Workload:
    """RMSNorm, grouped-query attention with rotary embeddings, RMSNorm, SwiGLU, both residual."""

    def rotate(g: GraphBuilder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = (*x.shape[:-1], s.d // 2)
        low, high = g.slice(x, (0, 0, 0), half), g.slice(x, (0, 0, s.d // 2), half)
        return x * cos + g.concat([-high, low], 2) * sin

    def build(g: GraphBuilder, x: Tensor, *rest: Tensor) -> Tensor:
        k_cache, v_cache, wq, wk, wv, wo, w1, w2, w3, g1, g2, cos, sin = rest
        h = g.rms_norm(x, g1, eps=_EPS)
        q = _per_head(g, h @ wq, s.heads, lambda y: rotate(g, y, cos, sin))
        k = _per_head(g, h @ wk, s.kv_heads, lambda y: rotate(g, y, cos, sin))
        x = x + _attend(g, s, q, k, h @ wv, k_cache, v_cache) @ wo
        h = g.rms_norm(x, g2, eps=_EPS)
        return x + (g.silu(h @ w1) * (h @ w2)) @ w3

    def module(x: Any, *rest: Any, fused: bool = False) -> torch.Tensor:
        import torch
        from torch.nn import functional

        k_cache, v_cache, wq, wk, wv, wo, w1, w2, w3, g1, g2, cos, sin = rest

        def rotated(y: torch.Tensor) -> torch.Tensor:
            y = y.unflatten(-1, (-1, s.d))
            low, high = y.chunk(2, dim=-1)
            return (y * cos + torch.cat([-high, low], dim=-1) * sin).flatten(1)

        h = functional.rms_norm(x, (s.hidden,), g1, _EPS)
        x = (
            x
            + _torch_attend(s, fused, rotated(h @ wq), rotated(h @ wk), h @ wv, k_cache, v_cache)
            @ wo
        )
        h = functional.rms_norm(x, (s.hidden,), g2, _EPS)
        return x + (functional.silu(h @ w1) * (h @ w2)) @ w3

    angles = (InputSpec("cos", (s.d,)), InputSpec("sin", (s.d,)))
    gains = (_vector("g1", s.hidden), _vector("g2", s.hidden))
    inputs = (*_attention_inputs(batch, s), *_swiglu_inputs(s), *gains, *angles)
    text = f"layer of Llama-3-8B, one token, {s.cached} cached, batch {batch}"
    return Workload(name, text, inputs, build, module, natives=_natives(module))


# ---- Chameleon


def chameleon_layer(name: str, batch: int, s: Layer) -> Workload:
    """Like Llama's layer, with layer normalisation of query and key heads instead of rotations."""

    def build(g: GraphBuilder, x: Tensor, *rest: Tensor) -> Tensor:
        k_cache, v_cache, wq, wk, wv, wo, w1, w2, w3, g1, g2, gq, bq, gk, bk = rest
        h = g.rms_norm(x, g1, eps=_EPS)
        q = _per_head(g, h @ wq, s.heads, lambda y: g.layer_norm(y, gq, bq, eps=_EPS))
        k = _per_head(g, h @ wk, s.kv_heads, lambda y: g.layer_norm(y, gk, bk, eps=_EPS))
        x = x + _attend(g, s, q, k, h @ wv, k_cache, v_cache) @ wo
        h = g.rms_norm(x, g2, eps=_EPS)
        return x + (g.silu(h @ w1) * (h @ w2)) @ w3

    def module(x: Any, *rest: Any, fused: bool = False) -> torch.Tensor:
        from torch.nn import functional

        k_cache, v_cache, wq, wk, wv, wo, w1, w2, w3, g1, g2, gq, bq, gk, bk = rest

        def normed(y: Any, gain: Any, bias: Any) -> Any:
            heads = y.unflatten(-1, (-1, s.d))
            return functional.layer_norm(heads, (s.d,), gain, bias, _EPS).flatten(1)

        h = functional.rms_norm(x, (s.hidden,), g1, _EPS)
        q, k = normed(h @ wq, gq, bq), normed(h @ wk, gk, bk)
        x = x + _torch_attend(s, fused, q, k, h @ wv, k_cache, v_cache) @ wo
        h = functional.rms_norm(x, (s.hidden,), g2, _EPS)
        return x + (functional.silu(h @ w1) * (h @ w2)) @ w3

    norms = (
        _vector("g1", s.hidden),
        _vector("g2", s.hidden),
        _vector("gq", s.d),
        _vector("bq", s.d, 0.0),
        _vector("gk", s.d),
        _vector("bk", s.d, 0.0),
    )
    inputs = (*_attention_inputs(batch, s), *_swiglu_inputs(s), *norms)
    text = f"layer of Chameleon-7B (QK normalisation), one token, {s.cached} cached, batch {batch}"
    return Workload(name, text, inputs, build, module, natives=_natives(module))


# ---- GPT-3 with LoRA


def gpt_lora_layer(name: str, batch: int, s: Layer) -> Workload:
    """LayerNorm, attention with low-rank adapters on queries and values, LayerNorm, GELU."""

    def build(g: GraphBuilder, x: Tensor, *rest: Tensor) -> Tensor:
        k_cache, v_cache, wq, wk, wv, wo, w1, w2, aq, bq, av, bv, *norms = rest
        g1, c1, g2, c2, b1, b2 = norms
        h = g.layer_norm(x, g1, c1, eps=_EPS)
        q, v = h @ wq + (h @ aq) @ bq, h @ wv + (h @ av) @ bv
        x = x + _attend(g, s, q, h @ wk, v, k_cache, v_cache) @ wo
        h = g.layer_norm(x, g2, c2, eps=_EPS)
        return x + (g.gelu(h @ w1 + b1) @ w2 + b2)

    def module(x: Any, *rest: Any, fused: bool = False) -> torch.Tensor:
        from torch.nn import functional

        k_cache, v_cache, wq, wk, wv, wo, w1, w2, aq, bq, av, bv, *norms = rest
        g1, c1, g2, c2, b1, b2 = norms
        h = functional.layer_norm(x, (s.hidden,), g1, c1, _EPS)
        q, v = h @ wq + (h @ aq) @ bq, h @ wv + (h @ av) @ bv
        x = x + _torch_attend(s, fused, q, h @ wk, v, k_cache, v_cache) @ wo
        h = functional.layer_norm(x, (s.hidden,), g2, c2, _EPS)
        return x + (functional.gelu(h @ w1 + b1) @ w2 + b2)

    rest = (
        _weight("w1", s.hidden, s.ffn),
        _weight("w2", s.ffn, s.hidden),
        _weight("aq", s.hidden, s.rank),
        _weight("bq", s.rank, s.heads * s.d),
        _weight("av", s.hidden, s.rank),
        _weight("bv", s.rank, s.kv),
        _vector("g1", s.hidden),
        _vector("c1", s.hidden, 0.0),
        _vector("g2", s.hidden),
        _vector("c2", s.hidden, 0.0),
        _vector("b1", s.ffn, 0.0),
        _vector("b2", s.hidden, 0.0),
    )
    text = (
        f"layer of GPT-3-7B with LoRA of rank {s.rank}, one token, {s.cached} cached, batch {batch}"
    )
    return Workload(
        name, text, (*_attention_inputs(batch, s), *rest), build, module, natives=_natives(module)
    )


# ---- nGPT


def ngpt_layer(name: str, batch: int, s: Layer) -> Workload:
    """Everything stays normalised: h becomes norm(h + a * (norm(block(h)) - h)), twice.

    Source: Loshchilov et al., arXiv 2410.01131.
    """

    def build(g: GraphBuilder, x: Tensor, *rest: Tensor) -> Tensor:
        k_cache, v_cache, wq, wk, wv, wo, w1, w2, w3, a1, a2, sq, sk = rest

        def mix(h: Tensor, y: Tensor, a: Tensor) -> Tensor:
            return g.rms_norm(h + a * (g.rms_norm(y, eps=_EPS) - h), eps=_EPS)

        q = _per_head(g, x @ wq, s.heads, lambda y: g.rms_norm(y, eps=_EPS) * sq)
        k = _per_head(g, x @ wk, s.kv_heads, lambda y: g.rms_norm(y, eps=_EPS) * sk)
        h = mix(x, _attend(g, s, q, k, x @ wv, k_cache, v_cache) @ wo, a1)
        return mix(h, (g.silu(h @ w1) * (h @ w2)) @ w3, a2)

    def module(x: Any, *rest: Any, fused: bool = False) -> torch.Tensor:
        from torch.nn import functional

        k_cache, v_cache, wq, wk, wv, wo, w1, w2, w3, a1, a2, sq, sk = rest

        def norm(y: Any) -> Any:
            return functional.rms_norm(y, (y.shape[-1],), eps=_EPS)

        def normed(y: Any, scale: Any) -> Any:
            return (norm(y.unflatten(-1, (-1, s.d))) * scale).flatten(1)

        q, k = normed(x @ wq, sq), normed(x @ wk, sk)
        attended = _torch_attend(s, fused, q, k, x @ wv, k_cache, v_cache) @ wo
        h = norm(x + a1 * (norm(attended) - x))
        return norm(h + a2 * (norm((functional.silu(h @ w1) * (h @ w2)) @ w3) - h))

    scales = (
        _vector("a1", s.hidden, 0.05),
        _vector("a2", s.hidden, 0.05),
        _vector("sq", s.d),
        _vector("sk", s.d),
    )
    inputs = (*_attention_inputs(batch, s), *_swiglu_inputs(s), *scales)
    text = f"layer of nGPT-1B, one token, {s.cached} cached, batch {batch}"
    return Workload(name, text, inputs, build, module, natives=_natives(module))
