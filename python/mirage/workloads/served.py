"""Programs as models state them today: heads that share keys and values, masks, rotary embeddings,
several results, and the ops around attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.workloads.native import Native, attend, grouped
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-6


def served() -> Iterator[Workload]:
    """Yield all programs of served batches."""
    for b in (1, 8, 16):
        yield grouped_attention(f"decode_heads_b{b}", b, 64, 8, 1, 128, 8192)
        yield grouped_attention(f"decode_masked_b{b}", b, 64, 8, 1, 128, 8192, mask="length")
    for b in (1, 8):
        yield grouped_attention(f"decode_rows4_b{b}", b, 64, 8, 4, 128, 8192)
        yield grouped_attention(f"decode_rows4_causal_b{b}", b, 64, 8, 4, 128, 8192, mask="causal")
    yield gained_qk_norm("qknorm_gain_bs1", 2, 256, 64, 4096)
    yield gained_qk_norm("qknorm_gain_bs8", 16, 256, 64, 4096)
    yield rope_attention("rope_attention", 32, 1024, 128)
    for m in (1, 8):
        yield rms_qkv(f"rms_qkv_m{m}", m, 4096, 4096, 1024)
        yield lora_swiglu(f"lora_swiglu_m{m}", m, 4096, 14336, 16)
    yield rms_silu_linear("rms_silu_linear_m8", 8, 4096, 1024)
    yield group_norm("group_norm", 8, 512, 1024, 32)
    yield cross_entropy("cross_entropy_v128256", 512, 128256)
    yield softmax_vocabulary("softmax_v128256", 512, 128256)


def _weight(name: str, *shape: int) -> InputSpec:
    return InputSpec(name, shape, std=float(shape[-2]) ** -0.5, weight=True)


def _gain(name: str, n: int) -> InputSpec:
    return InputSpec(name, (n,), std=0.1, mean=1.0, weight=True)


def grouped_attention(
    name: str, batch: int, heads: int, kv_heads: int, rows: int, d: int, kv: int, mask: str = ""
) -> Workload:
    """Query heads ``(batch, heads, rows, d)`` in groups that share ``(batch, kv_heads, kv, d)``,
    the last ``rows`` tokens of a sequence; ``mask`` is ``length`` (one for each sequence) or
    ``causal`` (one for each row), additive.
    """
    group, scale = heads // kv_heads, d**-0.5

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, m: Tensor | None = None) -> Tensor:
        def shared(x: Tensor) -> Tensor:
            x = g.reshape(x, (batch, kv_heads, 1, kv, d))
            x = g.broadcast(x, (batch, kv_heads, group, kv, d))
            return g.reshape(x, (batch, heads, kv, d))

        scores = (q @ g.transpose(shared(k))) * scale
        return g.softmax(scores if m is None else scores + m) @ shared(v)

    def module(q: Any, k: Any, v: Any, m: Any = None) -> torch.Tensor:
        import torch

        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        scores = (q @ k.transpose(-1, -2)) * scale
        return torch.softmax(scores if m is None else scores + m, dim=-1) @ v

    inputs = [
        InputSpec("q", (batch, heads, rows, d)),
        InputSpec("k", (batch, kv_heads, kv, d)),
        InputSpec("v", (batch, kv_heads, kv, d)),
    ]
    if mask == "length":
        inputs.append(InputSpec("mask", (batch, 1, 1, kv), lengths=True))
    elif mask == "causal":
        inputs.append(InputSpec("mask", (rows, kv), causal=True))
    what = f", {mask} mask" if mask else ""
    text = (
        f"{heads} query heads on {kv_heads} KV heads, {rows} tokens of {batch} sequences, "
        f"scaled{what}: Q({batch},{heads},{rows},{d}) K,V({batch},{kv_heads},{kv},{d})"
    )
    natives = grouped(group, scale, mask == "causal")
    family = {"": "grouped_attention", "length": "masked_attention"}.get(mask, "")
    return Workload(name, text, tuple(inputs), build, module, natives=natives, family=family)


def gained_qk_norm(name: str, heads: int, rows: int, d: int, kv: int) -> Workload:
    """Attention of Chameleon, Qwen3 and Gemma 3: rms_norm of Q and K, each with a gain."""

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, gq: Tensor, gk: Tensor) -> Tensor:
        scores = g.rms_norm(q, gq, eps=_EPS) @ g.transpose(g.rms_norm(k, gk, eps=_EPS))
        return g.softmax(scores * float(d) ** -0.5) @ v

    def module(q: Any, k: Any, v: Any, gq: Any, gk: Any) -> torch.Tensor:
        import torch

        norm = torch.nn.functional.rms_norm
        scores = norm(q, (d,), gq, _EPS) @ norm(k, (d,), gk, _EPS).transpose(1, 2)
        return torch.softmax(scores * d**-0.5, dim=-1) @ v

    def native(q: Any, k: Any, v: Any, gq: Any, gk: Any) -> torch.Tensor:
        import torch

        norm = torch.nn.functional.rms_norm
        return attend(norm(q, (d,), gq, _EPS), norm(k, (d,), gk, _EPS), v, d**-0.5)

    inputs = (
        InputSpec("q", (heads, rows, d)),
        InputSpec("k", (heads, kv, d)),
        InputSpec("v", (heads, kv, d)),
        _gain("gq", d),
        _gain("gk", d),
    )
    text = f"attention with rms_norm and gains on Q({heads},{rows},{d}) and K({heads},{kv},{d})"
    natives = (Native("", native, alone=False),)
    return Workload(name, text, inputs, build, module, natives=natives)


def rope_attention(name: str, heads: int, tokens: int, d: int) -> Workload:
    """Rotary embeddings (halves of the head) on Q and K, then attention."""
    half = d // 2

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        def rotate(x: Tensor) -> Tensor:
            size = (heads, tokens, half)
            low, high = g.slice(x, (0, 0, 0), size), g.slice(x, (0, 0, half), size)
            return x * cos + g.concat([-high, low], 2) * sin

        return g.softmax((rotate(q) @ g.transpose(rotate(k))) * float(d) ** -0.5) @ v

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        import torch

        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-high, low], dim=-1) * sin

    def module(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> torch.Tensor:
        import torch

        q, k = (rotated(x, cos, sin) for x in (q, k))
        return torch.softmax((q @ k.transpose(1, 2)) * d**-0.5, dim=-1) @ v

    def native(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> torch.Tensor:
        return attend(rotated(q, cos, sin), rotated(k, cos, sin), v, d**-0.5)

    shape = (heads, tokens, d)
    rows = [InputSpec(n, shape) for n in "qkv"]
    angles = [InputSpec(n, (tokens, d)) for n in ("cos", "sin")]
    text = f"rotary embeddings on Q and K, then attention: Q,K,V({heads},{tokens},{d})"
    natives = (Native("", native, alone=False),)
    inputs, family = (*rows, *angles), "rotary_attention"
    return Workload(name, text, inputs, build, module, natives=natives, family=family)


def rms_qkv(name: str, m: int, k: int, q: int, kv: int) -> Workload:
    """Three projections of a normalised row: three results."""

    def build(g: GraphBuilder, x: Tensor, gain: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        y = g.rms_norm(x, gain, eps=_EPS)
        return tuple(y @ w for w in weights)

    def module(x: Any, gain: Any, *weights: Any) -> tuple[torch.Tensor, ...]:
        import torch

        y = torch.nn.functional.rms_norm(x, (k,), gain, _EPS)
        return tuple(y @ w for w in weights)

    weights = (_weight("wq", k, q), _weight("wk", k, kv), _weight("wv", k, kv))
    text = f"rms_norm with gain X({m},{k}), then W({k},{q}), W({k},{kv}), W({k},{kv})"
    inputs = (InputSpec("x", (m, k)), _gain("g", k), *weights)
    return Workload(name, text, inputs, build, module, family="rms_qkv")


def lora_swiglu(name: str, m: int, k: int, n: int, rank: int) -> Workload:
    """SwiGLU whose two projections carry low-rank adapters."""

    def build(g: GraphBuilder, x: Tensor, *w: Tensor) -> Tensor:
        w1, a1, b1, w2, a2, b2 = w
        return g.silu(x @ w1 + (x @ a1) @ b1) * (x @ w2 + (x @ a2) @ b2)

    def module(x: Any, *w: Any) -> torch.Tensor:
        import torch

        w1, a1, b1, w2, a2, b2 = w
        gate = torch.nn.functional.silu(x @ w1 + (x @ a1) @ b1)
        return gate * (x @ w2 + (x @ a2) @ b2)

    weights = [
        w
        for i in "12"
        for w in (_weight(f"w{i}", k, n), _weight(f"a{i}", k, rank), _weight(f"b{i}", rank, n))
    ]
    text = f"silu(x W1 + x A1 B1) * (x W2 + x A2 B2): x({m},{k}) W({k},{n}), rank {rank}"
    inputs = (InputSpec("x", (m, k)), *weights)
    return Workload(name, text, inputs, build, module, family="adapted_gate")


def rms_silu_linear(name: str, m: int, k: int, n: int) -> Workload:
    """A function between the norm and the product, so that the scale cannot move past the sum."""

    def build(g: GraphBuilder, x: Tensor, gain: Tensor, w: Tensor) -> Tensor:
        return g.silu(g.rms_norm(x, gain, eps=_EPS)) @ w

    def module(x: Any, gain: Any, w: Any) -> torch.Tensor:
        import torch

        functional = torch.nn.functional
        return functional.silu(functional.rms_norm(x, (k,), gain, _EPS)) @ w

    inputs = (InputSpec("x", (m, k)), _gain("g", k), _weight("w", k, n))
    text = f"silu(rms_norm(X({m},{k}))) W({k},{n})"
    return Workload(name, text, inputs, build, module, family="rms_silu_linear")


def group_norm(name: str, batch: int, channels: int, points: int, groups: int) -> Workload:
    eps, width = 1e-5, channels // groups

    def build(g: GraphBuilder, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        y = g.cast(g.reshape(x, (batch, groups, width * points)), "float32")
        y = g.reshape(g.layer_norm(y, eps=eps), (batch, channels, points))
        column = (channels, 1)
        y = y * g.cast(g.reshape(gain, column), "float32")
        return g.cast(y + g.cast(g.reshape(bias, column), "float32"), x.dtype)

    def module(x: Any, gain: Any, bias: Any) -> torch.Tensor:
        import torch

        return torch.nn.functional.group_norm(x, groups, gain, bias, eps)

    inputs = (
        InputSpec("x", (batch, channels, points)),
        _gain("g", channels),
        InputSpec("b", (channels,), std=0.1, weight=True),
    )
    text = f"group_norm of X({batch},{channels},{points}) in {groups} groups, with gain and bias"
    return Workload(name, text, inputs, build, module, family=f"group_norm {groups}")


def cross_entropy(name: str, tokens: int, vocabulary: int) -> Workload:
    """Loss of each token against probabilities (distillation, label smoothing)."""

    def build(g: GraphBuilder, x: Tensor, p: Tensor) -> Tensor:
        x, p = g.cast(x, "float32"), g.cast(p, "float32")
        logs = x - g.log(g.sum(g.exp(x), 1))
        return g.reshape(-g.sum(p * logs, 1), (tokens,))

    def module(x: Any, p: Any) -> torch.Tensor:
        import torch

        wide = x.double() if x.dtype is torch.float64 else x.float()
        logs = wide - torch.log(torch.sum(torch.exp(wide), dim=1, keepdim=True))
        return -torch.sum(p * logs, dim=1)

    inputs = (
        InputSpec("x", (tokens, vocabulary)),
        InputSpec("p", (tokens, vocabulary), std=0.1 / vocabulary, mean=1.0 / vocabulary),
    )
    text = f"cross-entropy of {tokens} tokens over {vocabulary} words, against probabilities"
    return Workload(name, text, inputs, build, module, family="cross_entropy")


def softmax_vocabulary(name: str, tokens: int, vocabulary: int) -> Workload:
    def build(g: GraphBuilder, x: Tensor) -> Tensor:
        return g.softmax(x)

    def module(x: Any) -> torch.Tensor:
        import torch

        return torch.softmax(x, dim=-1)

    inputs = (InputSpec("x", (tokens, vocabulary)),)
    text = f"softmax of {tokens} rows of {vocabulary}"
    return Workload(name, text, inputs, build, module, family="softmax")
