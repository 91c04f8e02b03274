"""Blocks of vision models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gallery.case import Called, Case, Layer, Width, load, normal
from gallery.written import ConvNeXtTail, MixerBlock

_MODELS = "transformers.models."


def _vit(layer: str, config: str, tokens: int = 197, **extra: Any) -> Callable[[Width], Layer]:
    """ViT and similar layers: pre-norm, with a class token, so that the number of tokens is odd."""

    def build(width: Width) -> Layer:
        batch, length, size, heads = (2, 17, 64, 4) if width == "small" else (8, tokens, 768, 12)
        inner = {} if "dinov2" in layer else {"intermediate_size": 4 * size}
        settings = load(_MODELS + config)(
            hidden_size=size, num_attention_heads=heads, **inner, **extra
        )
        settings._attn_implementation = "sdpa"
        module = load(_MODELS + layer)(settings)
        call = (
            (lambda m, x: m(x, None)) if "clip" in layer or "siglip" in layer else lambda m, x: m(x)
        )
        return Layer(Called(module, call), (normal(batch, length, size),))

    return build


def _beit(width: Width) -> Layer:
    """Relative positions are given as a bias of the scores, like a mask."""
    batch, tokens, size, heads = (2, 17, 64, 4) if width == "small" else (8, 197, 768, 12)
    settings = load(_MODELS + "beit.configuration_beit.BeitConfig")(
        hidden_size=size, num_attention_heads=heads, intermediate_size=4 * size
    )
    settings._attn_implementation = "sdpa"
    module = load(_MODELS + "beit.modeling_beit.BeitLayer")(settings)
    return Layer(
        Called(module, lambda m, x, bias: m(x, attention_mask=bias)),
        (normal(batch, tokens, size), normal(1, heads, tokens, tokens)),
    )


def _convnext_tail(width: Width) -> Layer:
    batch, size, side = (2, 32, 4) if width == "small" else (8, 384, 14)
    return Layer(
        ConvNeXtTail(size), (normal(batch, size, side, side), normal(batch, size, side, side))
    )


def _convnext(width: Width) -> Layer:
    batch, size, side = (1, 32, 8) if width == "small" else (8, 384, 14)
    settings = load(_MODELS + "convnext.configuration_convnext.ConvNextConfig")(
        layer_scale_init_value=1.0
    )
    module = load(_MODELS + "convnext.modeling_convnext.ConvNextLayer")(settings, size)
    return Layer(module, (normal(batch, size, side, side),))


def _mixer(width: Width) -> Layer:
    batch, tokens, size, token_inner, inner = (
        (2, 16, 32, 24, 64) if width == "small" else (8, 196, 768, 384, 3072)
    )
    return Layer(MixerBlock(tokens, size, token_inner, inner), (normal(batch, tokens, size),))


def _poolformer(width: Width) -> Layer:
    batch, size, side = (1, 32, 6) if width == "small" else (8, 320, 14)
    settings = load(_MODELS + "poolformer.configuration_poolformer.PoolFormerConfig")()
    module = load(_MODELS + "poolformer.modeling_poolformer.PoolFormerLayer")(
        settings, size, 3, size, 4 * size, 0.0
    )
    return Layer(
        Called(module, lambda m, x: m(x)[0]),
        (normal(batch, size, side, side),),
    )


def _source(module: str, name: str) -> str:
    return f"{_MODELS}{module}.modeling_{module}.{name}"


def _vit_case(module: str, name: str, config: str, dtype: torch.dtype, **options: Any) -> Case:
    return Case(
        module if module != "clip" else "clip_vision",
        _source(module, name),
        dtype,
        _vit(f"{module}.modeling_{module}.{name}", f"{module}.configuration_{module}.{config}",
             **options),
    )  # fmt: skip


CASES = (
    _vit_case("vit", "ViTLayer", "ViTConfig", torch.float16),
    _vit_case("deit", "DeiTLayer", "DeiTConfig", torch.float16, tokens=198),
    _vit_case(
        "dinov2", "Dinov2Layer", "Dinov2Config", torch.float32, tokens=257, mlp_ratio=4
    ),
    _vit_case("clip", "CLIPEncoderLayer", "CLIPVisionConfig", torch.float16, tokens=50),
    _vit_case("siglip", "SiglipEncoderLayer", "SiglipVisionConfig", torch.bfloat16, tokens=196),
    Case("beit", _source("beit", "BeitLayer"), torch.float16, _beit),
    Case("convnext_tail", "written after ConvNeXt, what follows the convolution",
         torch.float16, _convnext_tail),
    Case("convnext", _source("convnext", "ConvNextLayer"), torch.float32, _convnext,
         fallback=True),
    Case("mixer", "written after MLP-Mixer", torch.float16, _mixer),
    Case("poolformer", _source("poolformer", "PoolFormerLayer"), torch.float32, _poolformer,
         fallback=True),
)  # fmt: skip
