"""Decoders written in plain PyTorch, with weights by name: whole models are compared with them if
Transformers is not installed. The tests compare them with Transformers' classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as fn
from decoder_models import Decoder
from torch import nn

Attention = Literal["masked", "full", "written", "flex"]
"""How a decoding step attends to its cache: with a mask of positions, without one (the cache is
full, so that nothing is masked), as products and a softmax, without PyTorch's attention, or with
FlexAttention, for models whose scores PyTorch's attention does not support."""
Turn = tuple[torch.Tensor, torch.Tensor]
Cached = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Keys and values of a layer, and the positions of new ones."""


class PlainDecoder(nn.Module):
    """``decoder`` with ``weights``, which are converted where they are used if their type differs
    from that of activations. It takes the results of ``decoder_models.arguments``, writes new keys
    and values into the caches, and returns the logits of the last token (rows, 1, vocabulary)."""

    def __init__(
        self,
        decoder: Decoder,
        weights: Mapping[str, torch.Tensor],
        attention: Attention = "masked",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.decoder, self.attention = decoder, attention
        self.weights = dict(weights)
        self.dtype = next(iter(weights.values())).dtype if dtype is None else dtype

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> torch.Tensor:
        """The logits of the last tokens."""
        x = self._embedded(ids)
        turn = self._turn(positions)
        mask = None
        if ids.shape[1] == 1 and self.attention != "full":
            mask = (torch.arange(keys[0].shape[2], device=ids.device) <= positions)[
                None, None, None
            ]
        for number in range(self.decoder.layers):
            cached = keys[number], values[number], positions
            x = self._layer(x, f"model.layers.{number}.", turn, mask, cached)
        return self._logits(self._norm(x[:, -1:], "model.norm"))

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        return fn.embedding(ids, self.weights["model.embed_tokens.weight"]).to(self.dtype)

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        return self._linear(x, "lm_head")

    def _layer(
        self, x: torch.Tensor, name: str, turn: Turn, mask: torch.Tensor | None, cached: Cached
    ) -> torch.Tensor:
        h = self._norm(x, name + "input_layernorm")
        x = x + self._attend(h, name + "self_attn.", turn, mask, cached)
        return x + self._inner(self._norm(x, name + "post_attention_layernorm"), name + "mlp.")

    def _inner(self, h: torch.Tensor, name: str) -> torch.Tensor:
        gate = fn.silu(self._linear(h, name + "gate_proj"))
        return self._linear(gate * self._linear(h, name + "up_proj"), name + "down_proj")

    def _weight(self, name: str) -> torch.Tensor:
        return self.weights[name + ".weight"].to(self.dtype)

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return fn.linear(x, self._weight(name))

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.decoder.eps)
        return self._weight(name) * y.to(x.dtype)

    def _turn(self, positions: torch.Tensor) -> Turn:
        """Cosines and sines (tokens, head)."""
        width = self.decoder.head
        steps = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
        angles = positions[:, None].float() * (1.0 / self.decoder.base**steps)
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def _attend(
        self, h: torch.Tensor, name: str, turn: Turn, mask: torch.Tensor | None, cached: Cached
    ) -> torch.Tensor:
        rows, tokens, _ = h.shape
        split = rows, tokens, -1, self.decoder.head
        keys, values, positions = cached
        q = self._linear(h, name + "q_proj").view(split)
        k = self._linear(h, name + "k_proj").view(split)
        v = self._linear(h, name + "v_proj").view(split).transpose(1, 2)
        if self.decoder.normed:
            q, k = self._norm(q, name + "q_norm"), self._norm(k, name + "k_norm")
        q, k = turned(q.transpose(1, 2), turn), turned(k.transpose(1, 2), turn)
        keys.index_copy_(2, positions, k)
        values.index_copy_(2, positions, v)
        y = self._prompt(q, k, v) if tokens > 1 else self._step(q, keys, values, mask)
        return self._linear(y.transpose(1, 2).reshape(rows, tokens, -1), name + "o_proj")

    def _prompt(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return fn.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def _step(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        if self.attention == "written":
            return self._written(q, keys, values, mask)
        return fn.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

    def _written(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Arrange queries (rows, heads, tokens, head) as rows of the key head that they share; a
        mask is that of one token."""
        rows, heads, tokens, width = q.shape
        shared = keys.shape[1]
        q = q.reshape(rows, shared, -1, width)
        scores = self._scored((q @ keys.transpose(2, 3)).float() * width**-0.5)
        if tokens > 1:
            mask = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril()
            mask = mask.repeat(heads // shared, 1)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return (scores.softmax(-1).to(q.dtype) @ values).view(rows, heads, tokens, -1)

    def _scored(self, scores: torch.Tensor) -> torch.Tensor:
        return scores


def turned(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotate each pair of elements of the first and the second half by its angle."""
    half = x.shape[-1] // 2
    other = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * turn[0] + other * turn[1]
