"""Layers of PyTorch itself, and plain ones written by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from gallery.case import Called, Case, Layer, Width, normal
from gallery.written import PlainEncoderLayer, SwiGLU


def _encoder(norm_first: bool) -> Callable[[Width], Layer]:
    def build(width: Width) -> Layer:
        batch, tokens, size, heads, inner = (
            (2, 16, 64, 4, 128) if width == "small" else (8, 128, 512, 8, 2048)
        )
        module = nn.TransformerEncoderLayer(
            size, heads, inner, batch_first=True, norm_first=norm_first
        )
        return Layer(module, (normal(batch, tokens, size),))

    return build


def _decoder(norm_first: bool) -> Callable[[Width], Layer]:
    def build(width: Width) -> Layer:
        batch, tokens, keys, size, heads, inner = (
            (2, 8, 16, 64, 4, 128) if width == "small" else (8, 64, 128, 512, 8, 2048)
        )
        module = nn.TransformerDecoderLayer(
            size, heads, inner, batch_first=True, norm_first=norm_first
        )
        mask = torch.full((tokens, tokens), -1e4).triu(1)
        return Layer(
            Called(module, lambda m, x, memory, mask: m(x, memory, tgt_mask=mask)),
            (normal(batch, tokens, size), normal(batch, keys, size), mask),
        )

    return build


def _plain(width: Width) -> Layer:
    if width == "small":
        return Layer(PlainEncoderLayer(64, 4, 128), (normal(2, 16, 64),))
    return Layer(PlainEncoderLayer(128, 4, 512), (normal(2, 48, 128),))


def _attention(width: Width) -> Layer:
    batch, tokens, size, heads = (2, 16, 64, 4) if width == "small" else (8, 128, 1024, 16)
    module = nn.MultiheadAttention(size, heads, batch_first=True)
    return Layer(
        Called(module, lambda m, x: m(x, x, x, need_weights=False)[0]),
        (normal(batch, tokens, size),),
    )


def _swiglu(width: Width) -> Layer:
    tokens, size, inner = (8, 64, 128) if width == "small" else (8, 4096, 14336)
    return Layer(SwiGLU(size, inner), (normal(tokens, size),))


CASES = (
    Case("torch_encoder_post", "torch.nn.TransformerEncoderLayer", torch.float16, _encoder(False)),
    Case("torch_encoder_pre", "torch.nn.TransformerEncoderLayer", torch.float16, _encoder(True)),
    Case("torch_decoder_post", "torch.nn.TransformerDecoderLayer", torch.float16, _decoder(False)),
    Case("torch_decoder_pre", "torch.nn.TransformerDecoderLayer", torch.float16, _decoder(True)),
    Case("torch_attention", "torch.nn.MultiheadAttention", torch.float32, _attention),
    Case("plain_encoder", "written by hand, pre-norm", torch.float16, _plain),
    Case("swiglu", "written by hand: norm, gated MLP, residual", torch.float16, _swiglu),
)
