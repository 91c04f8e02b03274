"""Encoder layers of language and speech models, from Transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gallery.case import Called, Case, Layer, Width, load, normal, padding_mask, rotary

_MODELS = "transformers.models."


def _bert(layer: str, config: str, **extra: Any) -> Callable[[Width], Layer]:
    """BERT and similar layers: post-norm, additive masks."""

    def build(width: Width) -> Layer:
        batch, tokens, size, heads, inner = (
            (2, 16, 64, 4, 128) if width == "small" else (8, 128, 768, 12, 3072)
        )
        settings = load(_MODELS + config)(
            hidden_size=size, num_attention_heads=heads, intermediate_size=inner, **extra
        )
        settings._attn_implementation = "sdpa"
        module = load(_MODELS + layer)(settings)
        inputs = (normal(batch, tokens, size), padding_mask(batch, tokens, 3))
        return Layer(Called(module, lambda m, x, mask: m(x, attention_mask=mask)), inputs)

    return build


def _modernbert(width: Width) -> Layer:
    batch, tokens, size, heads, inner = (
        (2, 16, 64, 4, 96) if width == "small" else (4, 256, 768, 12, 1152)
    )
    settings = load(_MODELS + "modernbert.configuration_modernbert.ModernBertConfig")(
        hidden_size=size, num_attention_heads=heads, intermediate_size=inner
    )
    settings._attn_implementation = "sdpa"
    module = load(_MODELS + "modernbert.modeling_modernbert.ModernBertEncoderLayer")(settings, 1)
    inputs = (
        normal(batch, tokens, size),
        padding_mask(batch, tokens, 3),
        *rotary(tokens, size // heads),
    )
    return Layer(
        Called(
            module,
            lambda m, x, mask, cos, sin: m(x, attention_mask=mask, position_embeddings=(cos, sin)),
        ),
        inputs,
    )


def _t5(width: Width) -> Layer:
    batch, tokens, size, heads, head, inner = (
        (2, 16, 64, 4, 16, 128) if width == "small" else (4, 128, 768, 12, 64, 2048)
    )
    settings = load(_MODELS + "t5.configuration_t5.T5Config")(
        d_model=size, num_heads=heads, d_kv=head, d_ff=inner, feed_forward_proj="gated-gelu"
    )
    settings._attn_implementation = "eager"
    module = load(_MODELS + "t5.modeling_t5.T5Block")(settings)
    bias = normal(1, heads, tokens, tokens) + padding_mask(batch, tokens, 3)
    return Layer(
        Called(module, lambda m, x, bias: m(x, position_bias=bias)[0]),
        (normal(batch, tokens, size), bias),
    )


def _whisper(width: Width) -> Layer:
    batch, tokens, size, heads, inner = (
        (1, 30, 64, 4, 128) if width == "small" else (1, 1500, 1280, 20, 5120)
    )
    settings = load(_MODELS + "whisper.configuration_whisper.WhisperConfig")(
        d_model=size, encoder_attention_heads=heads, encoder_ffn_dim=inner
    )
    settings._attn_implementation = "sdpa"
    module = load(_MODELS + "whisper.modeling_whisper.WhisperEncoderLayer")(settings)
    return Layer(Called(module, lambda m, x: m(x, None)), (normal(batch, tokens, size),))


def _clip_text(width: Width) -> Layer:
    batch, tokens, size, heads, inner = (
        (2, 11, 64, 4, 128) if width == "small" else (8, 77, 768, 12, 3072)
    )
    settings = load(_MODELS + "clip.configuration_clip.CLIPTextConfig")(
        hidden_size=size, num_attention_heads=heads, intermediate_size=inner
    )
    settings._attn_implementation = "sdpa"
    module = load(_MODELS + "clip.modeling_clip.CLIPEncoderLayer")(settings)
    mask = torch.full((tokens, tokens), -1e4).triu(1).expand(batch, 1, tokens, tokens).clone()
    return Layer(
        Called(module, lambda m, x, mask: m(x, attention_mask=mask)),
        (normal(batch, tokens, size), mask),
    )


CASES = (
    Case(
        "bert",
        _MODELS + "bert.modeling_bert.BertLayer",
        torch.float16,
        _bert("bert.modeling_bert.BertLayer", "bert.configuration_bert.BertConfig"),
    ),
    Case(
        "albert",
        _MODELS + "albert.modeling_albert.AlbertLayer",
        torch.float16,
        _bert("albert.modeling_albert.AlbertLayer", "albert.configuration_albert.AlbertConfig"),
    ),
    Case(
        "xlm_roberta",
        _MODELS + "xlm_roberta.modeling_xlm_roberta.XLMRobertaLayer",
        torch.float16,
        _bert(
            "xlm_roberta.modeling_xlm_roberta.XLMRobertaLayer",
            "xlm_roberta.configuration_xlm_roberta.XLMRobertaConfig",
        ),
    ),
    Case(
        "electra",
        _MODELS + "electra.modeling_electra.ElectraLayer",
        torch.float32,
        _bert(
            "electra.modeling_electra.ElectraLayer", "electra.configuration_electra.ElectraConfig"
        ),
    ),
    Case(
        "modernbert",
        _MODELS + "modernbert.modeling_modernbert.ModernBertEncoderLayer",
        torch.bfloat16,
        _modernbert,
    ),
    Case("t5_encoder", _MODELS + "t5.modeling_t5.T5Block", torch.bfloat16, _t5),
    Case(
        "whisper_encoder",
        _MODELS + "whisper.modeling_whisper.WhisperEncoderLayer",
        torch.float16,
        _whisper,
    ),
    Case("clip_text", _MODELS + "clip.modeling_clip.CLIPEncoderLayer", torch.float16, _clip_text),
)
