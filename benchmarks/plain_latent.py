"""DeepSeek-V2 in plain PyTorch, with weights by name."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as fn
from decoders import Latent
from plain_decoder import Cached, PlainDecoder, Turn

FEW = 64
"""Pairs of a token and an expert for which the experts' weights are looked up one by one."""


class PlainLatent(PlainDecoder):
    """With attention ``masked`` as in Transformers, a step computes keys and values from all latent
    rows, and products with experts are grouped. In the other forms a step works on latent rows: the
    matrices that would compute keys and values multiply queries and sums instead. Few tokens
    multiply looked-up weights of experts in one sum, which ``torch.compile`` turns into one kernel,
    without a copy."""

    decoder: Latent

    def _layer(
        self, x: torch.Tensor, name: str, turn: Turn, mask: torch.Tensor | None, cached: Cached
    ) -> torch.Tensor:
        h = self._norm(x, name + "input_layernorm")
        x = x + self._attend(h, name + "self_attn.", turn, mask, cached)
        h = self._norm(x, name + "post_attention_layernorm")
        if name + "mlp.gate.weight" not in self.weights:
            return x + self._inner(h, name + "mlp.")
        common = self._inner(h, name + "mlp.shared_experts.")
        return x + (self._routed(h.flatten(0, 1), name + "mlp.").view_as(h) + common)

    def _turn(self, positions: torch.Tensor) -> Turn:
        """Return cosines and sines (tokens, turned / 2) in float32, of stretched positions."""
        d = self.decoder
        pairs = torch.arange(0, d.turned, 2, device=positions.device, dtype=torch.float32)
        fast = 1.0 / d.base ** (pairs / d.turned)

        def place(turns: float) -> float:
            return d.turned * math.log(d.original / (turns * 2 * math.pi)) / (2 * math.log(d.base))

        low, high = max(math.floor(place(32)), 0), min(math.ceil(place(1)), d.turned - 1)
        high = high + 0.001 if low == high else high
        slow = ((pairs / 2 - low) / (high - low)).clamp(0, 1)
        angles = positions[:, None].float() * (fast / d.factor * slow + fast * (1 - slow))
        return angles.cos(), angles.sin()

    def _attend(
        self, h: torch.Tensor, name: str, turn: Turn, mask: torch.Tensor | None, cached: Cached
    ) -> torch.Tensor:
        d, (rows, tokens, _) = self.decoder, h.shape
        latents, turned, positions = cached
        q = self._linear(h, name + "q_proj").view(rows, tokens, d.heads, -1).transpose(1, 2)
        q, q_turned = q.split([d.head, d.turned], -1)
        new, k_turned = self._linear(h, name + "kv_a_proj_with_mqa").split([d.rank, d.turned], -1)
        new = self._norm(new, name + "kv_a_layernorm")[:, None]
        q_turned, k_turned = _in_pairs(q_turned, turn), _in_pairs(k_turned[:, None], turn)
        latents.index_copy_(2, positions, new)
        turned.index_copy_(2, positions, k_turned)
        up = self._weight(name + "kv_b_proj").view(d.heads, 2 * d.head, d.rank)
        if tokens > 1:
            y = self._expanded(q, q_turned, new, k_turned, up, None)
        elif self.attention == "masked":
            y = self._expanded(q, q_turned, latents, turned, up, mask)
        else:
            y = self._absorbed(q, q_turned, latents, turned, up, mask)
        return self._linear(y.transpose(1, 2).reshape(rows, tokens, -1), name + "o_proj")

    def _scale(self) -> float:
        d = self.decoder
        stretched = 0.1 * d.scale * math.log(d.factor) + 1.0
        return (d.head + d.turned) ** -0.5 * stretched**2

    def _expanded(
        self,
        q: torch.Tensor,
        q_turned: torch.Tensor,
        latents: torch.Tensor,
        k_turned: torch.Tensor,
        up: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        both = fn.linear(latents[:, 0], up.flatten(0, 1)).unflatten(-1, up.shape[:2])
        k, v = both.transpose(1, 2).chunk(2, -1)
        k = torch.cat((k, k_turned.expand(-1, k.shape[1], -1, -1)), -1)
        q = torch.cat((q, q_turned), -1)
        return fn.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=q.shape[2] > 1, scale=self._scale()
        )

    def _absorbed(
        self,
        q: torch.Tensor,
        q_turned: torch.Tensor,
        latents: torch.Tensor,
        k_turned: torch.Tensor,
        up: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of one token, with queries and sums (rows, heads, rank) in the latent space."""
        k_up, v_up = up.chunk(2, 1)
        inside = torch.einsum("bhd,hdr->bhr", q[:, :, 0], k_up)
        scores = inside @ latents[:, 0].mT + q_turned[:, :, 0] @ k_turned[:, 0].mT
        scores = scores.float() * self._scale()
        if mask is not None:
            scores = scores.masked_fill(~mask[0], float("-inf"))
        sums = scores.softmax(-1).to(q.dtype) @ latents[:, 0]
        return torch.einsum("bhr,hdr->bhd", sums, v_up)[:, :, None]

    def _routed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return the weighted sum of each token's experts."""
        d = self.decoder
        scores = fn.linear(x.float(), self.weights[name + "gate.weight"].float()).softmax(-1)
        weights, chosen = scores.topk(d.top, -1, sorted=False)
        up = self.weights[name + "experts.gate_up_proj"]
        down = self.weights[name + "experts.down_proj"]
        if self.attention != "masked" and chosen.numel() <= FEW:
            return self._looked_up(x, weights, chosen, up, down)
        if self.dtype == torch.bfloat16:
            return _grouped(x, weights, chosen, up, down)
        return self._one_by_one(x, weights, chosen, up, down)

    def _looked_up(
        self,
        x: torch.Tensor,
        weights: torch.Tensor,
        chosen: torch.Tensor,
        up: torch.Tensor,
        down: torch.Tensor,
    ) -> torch.Tensor:
        y = (x.float()[:, None, None] * up[chosen].float()).sum(-1).to(self.dtype)
        gate, value = y.chunk(2, -1)
        y = (fn.silu(gate) * value).float()[:, :, None]
        y = (y * down[chosen].float()).sum(-1).to(self.dtype)
        return (y * weights[..., None]).sum(1).to(self.dtype)

    def _one_by_one(
        self,
        x: torch.Tensor,
        weights: torch.Tensor,
        chosen: torch.Tensor,
        up: torch.Tensor,
        down: torch.Tensor,
    ) -> torch.Tensor:
        found = torch.zeros_like(x)
        for number in range(self.decoder.experts):
            gate, value = fn.linear(x, up[number].to(self.dtype)).chunk(2, -1)
            y = fn.linear(fn.silu(gate) * value, down[number].to(self.dtype))
            found += y * (weights * (chosen == number)).sum(-1, keepdim=True)
        return found


def _grouped(
    x: torch.Tensor,
    weights: torch.Tensor,
    chosen: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
) -> torch.Tensor:
    """Return the same with tokens sorted by expert, as in Transformers."""
    top, experts = chosen.shape[1], up.shape[0]
    sorted_, order = chosen.flatten().sort()
    ends = torch.histc(
        sorted_.int() if x.is_cuda else sorted_.float(), bins=experts, min=0, max=experts - 1
    ).cumsum(0, dtype=torch.int32)
    gate, value = fn.grouped_mm(x[order // top], up.mT, offs=ends).chunk(2, -1)
    y = fn.grouped_mm(fn.silu(gate) * value, down.mT, offs=ends)
    y = y * weights.flatten()[order, None]
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=x.device)
    return y[back].view(-1, top, x.shape[1]).sum(1).to(x.dtype)


def _in_pairs(x: torch.Tensor, turn: Turn) -> torch.Tensor:
    """Rotate each element at an even place and the next one by their angle, in float32."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turn
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)
