"""Gemma 2 in plain PyTorch, with weights by name."""

from __future__ import annotations

import torch
import torch.nn.functional as fn
from decoders import Capped
from plain_decoder import Cached, PlainDecoder, Turn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class PlainCapped(PlainDecoder):
    """PyTorch's attention has no bounded scores, so attention is products and a softmax, or
    FlexAttention."""

    decoder: Capped

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        scale = torch.tensor(self.decoder.width**0.5, dtype=self.dtype)
        return super()._embedded(ids) * scale.item()

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.decoder.eps)
        return (y * (1.0 + self._weight(name).float())).to(x.dtype)

    def _layer(
        self, x: torch.Tensor, name: str, turn: Turn, mask: torch.Tensor | None, cached: Cached
    ) -> torch.Tensor:
        h = self._norm(x, name + "input_layernorm")
        h = self._attend(h, name + "self_attn.", turn, mask, cached)
        x = x + self._norm(h, name + "post_attention_layernorm")
        h = self._inner(self._norm(x, name + "pre_feedforward_layernorm"), name + "mlp.")
        return x + self._norm(h, name + "post_feedforward_layernorm")

    def _inner(self, h: torch.Tensor, name: str) -> torch.Tensor:
        gate = fn.gelu(self._linear(h, name + "gate_proj"), approximate="tanh")
        return self._linear(gate * self._linear(h, name + "up_proj"), name + "down_proj")

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        most = self.decoder.logits
        return (self._linear(x, "lm_head") / most).tanh() * most

    def _scored(self, scores: torch.Tensor) -> torch.Tensor:
        return (scores / self.decoder.scores).tanh() * self.decoder.scores

    def _prompt(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self._flex(q, k, v) if self.attention == "flex" else self._written(q, k, v, None)

    def _step(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        if self.attention == "flex":
            return self._flex(q, keys, values)
        return self._written(q, keys, values, mask)

    def _flex(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Compute the attention of a prompt, or of one token to the whole cache."""
        tokens, most = q.shape[2], self.decoder.scores

        def bounded(score: torch.Tensor, *place: torch.Tensor) -> torch.Tensor:
            return torch.tanh(score / most) * most

        blocks = None
        if tokens > 1:
            blocks = create_block_mask(
                lambda b, h, i, j: i >= j, None, None, tokens, tokens, device=q.device
            )
        found = flex_attention(q, k, v, score_mod=bounded, block_mask=blocks, enable_gqa=True)
        assert isinstance(found, torch.Tensor)
        return found
