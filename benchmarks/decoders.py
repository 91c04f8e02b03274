"""The decoders that are measured: published configurations, and tiny ones for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from decoder_models import Decoder, Use, elements


@dataclass(frozen=True)
class Capped(Decoder):
    """Gemma 2: scores and logits are bounded by a hyperbolic tangent, each block is normalized
    before and after, gains are one more than their weights, and every other layer has a window. The
    window is not shorter than the caches here, so that it masks nothing."""

    scores: float = 50.0
    logits: float = 30.0
    window: int = 4096

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Weights by the names that they have in Transformers' state dict."""
        found = super().shapes()
        for number in range(self.layers):
            for name in ("pre", "post"):
                found[f"model.layers.{number}.{name}_feedforward_layernorm.weight"] = (self.width,)
        return found

    def configuration(self) -> dict[str, Any]:
        """Return the sizes by Transformers' names; it has no fused attention for these scores."""
        return super().configuration() | {
            "query_pre_attn_scalar": self.head, "sliding_window": self.window,
            "attn_logit_softcapping": self.scores, "final_logit_softcapping": self.logits,
            "attn_implementation": "eager",
        }  # fmt: skip

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms of attention in plain PyTorch that differ."""
        return "masked", "full", "flex"


@dataclass(frozen=True)
class Latent(Decoder):
    """DeepSeek-V2-Lite: keys and values of all heads are products of one latent row of ``rank``
    elements per token, in addition to ``turned`` rotated elements that the heads share; ``head`` is
    the width of the rest of a key, and of a value. The first layer is dense; the others add ``top``
    of ``experts`` experts of ``expert`` elements to ``common`` that are always taken. Positions are
    stretched by ``factor`` from ``original`` tokens (YaRN)."""

    rank: int = 512
    turned: int = 64
    experts: int = 64
    top: int = 6
    common: int = 2
    expert: int = 1408
    factor: float = 40.0
    scale: float = 0.707
    original: int = 4096

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Weights by the names that they have in Transformers' state dict."""
        found = {n: s for n, s in super().shapes().items() if ".layers." not in n}
        for number in range(self.layers):
            layer = f"model.layers.{number}."
            found |= {
                layer + "input_layernorm.weight": (self.width,),
                layer + "post_attention_layernorm.weight": (self.width,),
            }
            found |= {layer + "self_attn." + n + ".weight": s for n, s in self._latent().items()}
            found |= {layer + "mlp." + n: s for n, s in self._inner(dense=number == 0).items()}
        return found

    @property
    def precise(self) -> tuple[str, ...]:
        """Return the weights that choose a token's experts."""
        return ("mlp.gate.weight",)

    def _latent(self) -> dict[str, tuple[int, ...]]:
        return {
            "q_proj": (self.heads * (self.head + self.turned), self.width),
            "kv_a_proj_with_mqa": (self.rank + self.turned, self.width),
            "kv_a_layernorm": (self.rank,),
            "kv_b_proj": (self.heads * 2 * self.head, self.rank),
            "o_proj": (self.width, self.heads * self.head),
        }

    def _inner(self, dense: bool) -> dict[str, tuple[int, ...]]:
        prefix, inner = (
            ("", self.inner) if dense else ("shared_experts.", self.common * self.expert)
        )
        found: dict[str, tuple[int, ...]] = {
            prefix + "gate_proj.weight": (inner, self.width),
            prefix + "up_proj.weight": (inner, self.width),
            prefix + "down_proj.weight": (self.width, inner),
        }
        if not dense:
            found |= {
                "gate.weight": (self.experts, self.width),
                "experts.gate_up_proj": (self.experts, 2 * self.expert, self.width),
                "experts.down_proj": (self.experts, self.width, self.expert),
            }
        return found

    def configuration(self) -> dict[str, Any]:
        """Return the sizes by Transformers' names."""
        return super().configuration() | {
            "num_key_value_heads": self.heads, "head_dim": None, "q_lora_rank": None,
            "kv_lora_rank": self.rank, "qk_rope_head_dim": self.turned,
            "qk_nope_head_dim": self.head, "v_head_dim": self.head,
            "n_routed_experts": self.experts, "n_shared_experts": self.common,
            "num_experts_per_tok": self.top, "moe_intermediate_size": self.expert,
            "first_k_dense_replace": 1, "topk_method": "greedy", "norm_topk_prob": False,
            "max_position_embeddings": int(self.factor * self.original),
            "rope_parameters": {
                "rope_type": "yarn", "rope_theta": self.base, "factor": self.factor,
                "mscale": self.scale, "mscale_all_dim": self.scale, "beta_fast": 32, "beta_slow": 1,
                "original_max_position_embeddings": self.original,
            },
        }  # fmt: skip

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms of attention in plain PyTorch that differ."""
        return "masked", "full"

    def cached(self, use: Use) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of the latent rows and of the shared part of the keys."""
        return (use.rows, 1, use.cache, self.rank), (use.rows, 1, use.cache, self.turned)

    def active(self, tokens: int) -> Iterator[tuple[float, float]]:
        """Experts are read if at least one token uses them; tokens are assumed to use them
        evenly."""
        read = 1 - (1 - self.top / self.experts) ** tokens
        for name, shape in self.shapes().items():
            if "embed" not in name and "lm_head" not in name:
                whole, routed = elements(shape), ".experts." in name
                used = whole * self.top / self.experts if routed else whole * (len(shape) > 1)
                yield whole * read if routed else whole, used

    def attending(self, use: Use) -> int:
        """A decoding step works on latent rows; a prompt computes keys and values from them."""
        if use.decodes:
            return 2 * self.heads * (2 * self.rank + self.turned)
        return 2 * self.heads * (2 * self.head + self.turned)


DECODERS: dict[str, Decoder] = {
    d.name: d
    for d in (
        Decoder("llama3_8b", "Llama", 128256, 4096, 14336, 32, 32, 8, 128, 5e5, 1e-5),
        Decoder("qwen3_8b", "Qwen3", 151936, 4096, 12288, 36, 32, 8, 128, 1e6, 1e-6, normed=True),
        Capped("gemma2_9b", "Gemma2", 256000, 3584, 14336, 42, 16, 8, 256, 1e4, 1e-6, tied=True,
               gain=0.0),
        Latent("deepseek2_lite", "DeepseekV2", 102400, 2048, 10944, 27, 16, 1, 128, 1e4, 1e-6),
        Decoder("tiny", "Llama", 96, 64, 96, 2, 4, 2, 16, 1e4, 1e-5),
        Capped("tiny_capped", "Gemma2", 96, 64, 96, 2, 4, 2, 16, 1e4, 1e-6, tied=True, gain=0.0,
               window=32),
        Latent("tiny_latent", "DeepseekV2", 96, 64, 96, 2, 4, 1, 16, 1e4, 1e-6, rank=32, turned=16,
               experts=8, top=2, expert=32, factor=4.0, original=16),
    )
}  # fmt: skip
