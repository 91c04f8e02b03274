"""Encoders by their published configurations: sizes, weights, plain PyTorch and costs.

This needs only PyTorch, so that weights of the right names and shapes can be made, and the model
can be computed, on the machine where it is measured. The tests compare it with Transformers'
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as fn
from decoder_models import ARITHMETIC, BANDWIDTH, GAIN
from torch import nn

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Names:
    """The names of a layer's weights in Transformers' state dict."""

    layer: str
    query: str
    key: str
    value: str
    output: str
    inner: str
    outer: str
    attention_norm: str
    inner_norm: str


BERT = Names(
    "encoder.layer.{}.", "attention.self.query", "attention.self.key", "attention.self.value",
    "attention.output.dense", "intermediate.dense", "output.dense", "attention.output.LayerNorm",
    "output.LayerNorm",
)  # fmt: skip
VIT = Names(
    "layers.{}.", "attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj",
    "mlp.fc1", "mlp.fc2", "layernorm_before", "layernorm_after",
)  # fmt: skip


@dataclass(frozen=True)
class Encoder:
    """BERT (norms after each sum; ``vocabulary`` words) or ViT (norms first; without a vocabulary,
    images of ``side`` points in patches of ``patch``); ``rows`` inputs of ``tokens`` tokens."""

    name: str
    width: int
    inner: int
    layers: int
    heads: int
    rows: int
    tokens: int
    vocabulary: int = 0
    side: int = 0
    patch: int = 0
    eps: float = 1e-12

    @property
    def names(self) -> Names:
        """Return the names of weights."""
        return BERT if self.vocabulary else VIT

    def with_layers(self, layers: int | None) -> Encoder:
        """Return the model with this number of layers; None keeps it."""
        return self if layers is None else replace(self, layers=layers)

    def shapes(self) -> Shapes:
        """Weights by their names."""
        n, w = self.names, self.width
        found: Shapes = self._embeddings()
        for number in range(self.layers):
            layer = n.layer.format(number)
            for name in (n.query, n.key, n.value, n.output):
                found |= {f"{layer}{name}.weight": (w, w), f"{layer}{name}.bias": (w,)}
            found |= {
                f"{layer}{n.inner}.weight": (self.inner, w),
                f"{layer}{n.inner}.bias": (self.inner,),
                f"{layer}{n.outer}.weight": (w, self.inner),
                f"{layer}{n.outer}.bias": (w,),
            }
            for name in (n.attention_norm, n.inner_norm):
                found |= {f"{layer}{name}.weight": (w,), f"{layer}{name}.bias": (w,)}
        return found

    def _embeddings(self) -> Shapes:
        w = self.width
        if self.vocabulary:
            return {
                "embeddings.word_embeddings.weight": (self.vocabulary, w),
                "embeddings.position_embeddings.weight": (512, w),
                "embeddings.token_type_embeddings.weight": (2, w),
                "embeddings.LayerNorm.weight": (w,),
                "embeddings.LayerNorm.bias": (w,),
            }
        return {
            "embeddings.cls_token": (1, 1, w),
            "embeddings.position_embeddings": (1, self.tokens, w),
            "embeddings.patch_embeddings.projection.weight": (w, 3, self.patch, self.patch),
            "embeddings.patch_embeddings.projection.bias": (w,),
            "layernorm.weight": (w,),
            "layernorm.bias": (w,),
        }


ENCODERS = {
    e.name: e
    for e in (
        Encoder("bert_large", 1024, 4096, 24, 16, 8, 512, vocabulary=30522),
        Encoder("vit_large", 1024, 4096, 24, 16, 32, 197, side=224, patch=16),
        Encoder("tiny_bert", 64, 128, 2, 4, 2, 12, vocabulary=40),
        Encoder("tiny_vit", 64, 128, 2, 4, 2, 5, side=16, patch=8),
    )
}


def random_weights(
    encoder: Encoder, device: str | torch.device, dtype: torch.dtype, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Make matrices of the order of one over the root of the length of their sums, so that
    activations stay of order one, gains near one and small biases."""
    generator = torch.Generator(device).manual_seed(seed)
    found: dict[str, torch.Tensor] = {}
    for name, shape in encoder.shapes().items():
        x = torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)
        if name.endswith("bias") or len(shape) == 1:
            x = x.mul_(GAIN).add_(0.0 if name.endswith("bias") else 1.0)
        elif "token" not in name and "position" not in name and "word" not in name:
            x = x.mul_((x.numel() / shape[0]) ** -0.5)
        found[name] = x
    return found


def argument(
    encoder: Encoder, device: str | torch.device, dtype: torch.dtype, seed: int = 1
) -> torch.Tensor:
    """Token ids (rows, tokens), or images (rows, 3, side, side)."""
    generator = torch.Generator(device).manual_seed(seed)
    if encoder.vocabulary:
        shape = encoder.rows, encoder.tokens
        return torch.randint(encoder.vocabulary, shape, generator=generator, device=device)
    shape = encoder.rows, 3, encoder.side, encoder.side
    return torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)


class PlainEncoder(nn.Module):
    """Computes the last hidden state (rows, tokens, width) of an encoder with ``weights``, whose
    type may differ from that of activations."""

    def __init__(
        self,
        encoder: Encoder,
        weights: Mapping[str, torch.Tensor],
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.weights = encoder, dict(weights)
        self.dtype = next(iter(weights.values())).dtype if dtype is None else dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the model for token ids or images."""
        e, n = self.encoder, self.encoder.names
        x = self._words(x) if e.vocabulary else self._patches(x)
        for number in range(e.layers):
            layer = n.layer.format(number)
            if e.vocabulary:
                x = self._norm(x + self._attend(x, layer), layer + n.attention_norm)
                x = self._norm(x + self._inner(x, layer), layer + n.inner_norm)
            else:
                x = x + self._attend(self._norm(x, layer + n.attention_norm), layer)
                x = x + self._inner(self._norm(x, layer + n.inner_norm), layer)
        return x if e.vocabulary else self._norm(x, "layernorm")

    def _weight(self, name: str) -> torch.Tensor:
        return self.weights[name].to(self.dtype)

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return fn.linear(x, self._weight(name + ".weight"), self._weight(name + ".bias"))

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        gain, bias = self._weight(name + ".weight"), self._weight(name + ".bias")
        return fn.layer_norm(x, x.shape[-1:], gain, bias, self.encoder.eps)

    def _words(self, ids: torch.Tensor) -> torch.Tensor:
        words = fn.embedding(ids, self._weight("embeddings.word_embeddings.weight"))
        kinds = self._weight("embeddings.token_type_embeddings.weight")[0]
        places = self._weight("embeddings.position_embeddings.weight")[: ids.shape[1]]
        return self._norm(words + kinds + places, "embeddings.LayerNorm")

    def _patches(self, images: torch.Tensor) -> torch.Tensor:
        name = "embeddings.patch_embeddings.projection"
        weight, bias = self._weight(name + ".weight"), self._weight(name + ".bias")
        x = fn.conv2d(images.to(self.dtype), weight, bias, self.encoder.patch)
        x = x.flatten(2).transpose(1, 2)
        first = self._weight("embeddings.cls_token").expand(x.shape[0], -1, -1)
        return torch.cat([first, x], 1) + self._weight("embeddings.position_embeddings")

    def _attend(self, x: torch.Tensor, layer: str) -> torch.Tensor:
        n = self.encoder.names
        split = *x.shape[:2], self.encoder.heads, -1
        q, k, v = (
            self._linear(x, layer + name).view(split).transpose(1, 2)
            for name in (n.query, n.key, n.value)
        )
        y = fn.scaled_dot_product_attention(q, k, v)
        return self._linear(y.transpose(1, 2).flatten(2), layer + n.output)

    def _inner(self, x: torch.Tensor, layer: str) -> torch.Tensor:
        n = self.encoder.names
        return self._linear(fn.gelu(self._linear(x, layer + n.inner)), layer + n.outer)


def costs(encoder: Encoder, width: int = 2) -> dict[str, Any]:
    """Return the least work of a call: ``bytes`` of weights and results (``width`` bytes per
    element), ``flops``, and the ``floor`` in µs, the larger of the times of both."""
    shapes = {n: s for n, s in encoder.shapes().items() if "embeddings" not in n}
    tokens = encoder.rows * encoder.tokens
    weights = sum(torch.Size(s).numel() for s in shapes.values())
    inside = sum(torch.Size(s).numel() for s in shapes.values() if len(s) == 2)
    flops = 2 * inside * tokens + 4 * encoder.layers * encoder.width * tokens * encoder.tokens
    if encoder.patch:
        flops += 2 * tokens * encoder.width * 3 * encoder.patch**2
    moved = width * (weights + 2 * tokens * encoder.width)
    return {
        "bytes": moved, "flops": flops,
        "floor": max(moved / BANDWIDTH, flops / ARITHMETIC) * 1e6,
    }  # fmt: skip
