"""Blocks of diffusion models, from diffusers or written after their description."""

from __future__ import annotations

import torch

from gallery.case import Called, Case, Layer, Width, load, normal, rotary_interleaved
from gallery.written import DiTBlock


def _dit(width: Width) -> Layer:
    batch, tokens, size, heads = (2, 16, 64, 4) if width == "small" else (2, 256, 1152, 16)
    return Layer(
        DiTBlock(size, heads, 4 * size), (normal(batch, tokens, size), normal(batch, size))
    )


def _sd3(width: Width) -> Layer:
    batch, tokens, words, size, heads = (
        (1, 16, 8, 64, 4) if width == "small" else (1, 1024, 154, 1536, 24)
    )
    module = load("diffusers.models.attention.JointTransformerBlock")(
        size, heads, size // heads, qk_norm="rms_norm"
    )
    return Layer(module, (normal(batch, tokens, size), normal(batch, words, size),
                          normal(batch, size)))  # fmt: skip


def _flux(width: Width) -> Layer:
    tokens, words, size, heads = (16, 8, 64, 4) if width == "small" else (256, 64, 3072, 24)
    module = load("diffusers.models.transformers.transformer_flux.FluxTransformerBlock")(
        size, heads, size // heads
    )
    cos, sin = rotary_interleaved(tokens + words, size // heads)
    return Layer(
        Called(module, lambda m, x, words, temb, cos, sin: m(x, words, temb, (cos, sin))),
        (normal(1, tokens, size), normal(1, words, size), normal(1, size), cos, sin),
    )


def _flux_single(width: Width) -> Layer:
    tokens, words, size, heads = (16, 8, 64, 4) if width == "small" else (256, 64, 3072, 24)
    module = load("diffusers.models.transformers.transformer_flux.FluxSingleTransformerBlock")(
        size, heads, size // heads
    )
    cos, sin = rotary_interleaved(tokens + words, size // heads)
    return Layer(
        Called(module, lambda m, x, words, temb, cos, sin: m(x, words, temb, (cos, sin))),
        (normal(1, tokens, size), normal(1, words, size), normal(1, size), cos, sin),
    )


def _unet_transformer(width: Width) -> Layer:
    """Self-attention, attention to a text, GEGLU: the block of Stable Diffusion's UNet."""
    batch, tokens, words, size, heads, text = (
        (1, 16, 8, 64, 4, 48) if width == "small" else (2, 1024, 77, 640, 10, 2048)
    )
    module = load("diffusers.models.attention.BasicTransformerBlock")(
        size, heads, size // heads, cross_attention_dim=text
    )
    return Layer(
        Called(module, lambda m, x, words: m(x, encoder_hidden_states=words)),
        (normal(batch, tokens, size), normal(batch, words, text)),
    )


def _unet_resnet(width: Width) -> Layer:
    batch, size, side, time = (1, 32, 8, 48) if width == "small" else (2, 320, 64, 1280)
    module = load("diffusers.models.resnet.ResnetBlock2D")(
        in_channels=size, temb_channels=time, groups=8 if width == "small" else 32
    )
    return Layer(module, (normal(batch, size, side, side), normal(batch, time)))


CASES = (
    Case("dit", "written after DiT (adaLN-Zero)", torch.float16, _dit),
    Case("sd3_joint", "diffusers.models.attention.JointTransformerBlock", torch.float16, _sd3),
    Case("flux", "diffusers.models.transformers.transformer_flux.FluxTransformerBlock",
         torch.bfloat16, _flux),
    Case("flux_single", "diffusers.models.transformers.transformer_flux.FluxSingleTransformerBlock",
         torch.bfloat16, _flux_single),
    Case("unet_transformer", "diffusers.models.attention.BasicTransformerBlock", torch.float16,
         _unet_transformer),
    Case("unet_resnet", "diffusers.models.resnet.ResnetBlock2D", torch.float16, _unet_resnet,
         fallback=True),
)  # fmt: skip
