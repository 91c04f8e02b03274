"""Layers that PyTorch computes by one op in evaluation mode, written in ops that have rows.

PyTorch has no decompositions of these ops: :class:`torch.nn.TransformerEncoderLayer` uses them in
evaluation mode if its results need no gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor

_OF_KEYS, _OF_SCORES = 1, 2
"""The meaning of a mask's elements (``mask_type``): one for each key of a sequence, or for each
score of each head; otherwise for each score of all heads of all sequences."""


def encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """``aten._transformer_encoder_layer_fwd``."""

    def attention(y: Tensor) -> Tensor:
        projected = F.linear(y, qkv_weight, qkv_bias)
        batch, length, _ = y.shape
        parts = projected.reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        scores = q * (width // heads) ** -0.5 @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(_left_out(mask, mask_type), float("-inf"))
        attended = torch.softmax(scores, -1) @ v
        together = attended.transpose(1, 2).reshape(batch, length, width)
        return F.linear(together, proj_weight, proj_bias)

    def between(y: Tensor) -> Tensor:
        inner = F.linear(y, ffn_weight_1, ffn_bias_1)
        inner = F.gelu(inner) if use_gelu else F.relu(inner)
        return F.linear(inner, ffn_weight_2, ffn_bias_2)

    def first(y: Tensor) -> Tensor:
        return F.layer_norm(y, (width,), norm_weight_1, norm_bias_1, eps)

    def second(y: Tensor) -> Tensor:
        return F.layer_norm(y, (width,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attention(first(x))
        return x + between(second(x))
    x = first(x + attention(x))
    return second(x + between(x))


def _left_out(mask: Tensor, mask_type: int | None) -> Tensor:
    """Return which scores, of ``[batch, heads, rows, keys]``, do not count: those where the mask is
    not zero. A row without any other score is NaN, as PyTorch's op computes it."""
    left_out = mask.to(torch.bool)
    if mask_type == _OF_KEYS:
        return left_out[:, None, None, :]
    return left_out if mask_type == _OF_SCORES else left_out[None, None]


LAYERS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
"""The layers by their ops."""
