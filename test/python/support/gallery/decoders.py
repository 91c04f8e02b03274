"""Decoder layers of language models, from Transformers or written after their description.

Positions are given as cosines and sines, and masks as additive tensors; models compute these from
integers, once for all layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gallery.case import Called, Case, Layer, Width, causal_mask, load, normal, rotary
from gallery.written import GPTJBlock, InternLM2Layer

_MODELS = "transformers.models."


def _rotary(
    module: str,
    name: str,
    config: str,
    small: tuple[int, int, int, int],
    real: tuple[int, int, int, int, int],
    head: int | None = None,
    attention: str = "sdpa",
    rotated: float = 1.0,
    **extra: Any,
) -> Callable[[Width], Layer]:
    """Layers that take ``position_embeddings``. Sizes: hidden, heads, key heads, inner (and for the
    real width the head's size); 16 or 128 tokens.
    """

    def build(width: Width) -> Layer:
        tokens = 16 if width == "small" else 128
        size, heads, groups, inner = small if width == "small" else real[:4]
        each = size // heads if width == "small" else real[4]
        config_class = load(f"{_MODELS}{module}.configuration_{module}.{config}")
        options: dict[str, Any] = {
            "hidden_size": size,
            "num_attention_heads": heads,
            "num_key_value_heads": groups,
            "intermediate_size": inner,
            "head_dim": each,
            **extra,
        }
        if module in _WITHOUT_HEAD_SIZE:
            del options["head_dim"]
        if module == "gpt_neox":
            del options["num_key_value_heads"]
        settings = config_class(**options)
        settings._attn_implementation = attention
        layer = load(f"{_MODELS}{module}.modeling_{module}.{name}")(settings, 0)
        cos, sin = rotary(tokens, int(each * rotated))
        return Layer(
            Called(
                layer,
                lambda m, x, mask, cos, sin: _first(
                    m(x, attention_mask=mask, position_embeddings=(cos, sin))
                ),
            ),
            (normal(1, tokens, size), causal_mask(tokens), cos, sin),
        )

    return build


_WITHOUT_HEAD_SIZE = ("phi3", "qwen2", "starcoder2", "gpt_neox", "olmo2", "stablelm", "cohere")


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _gpt2(width: Width) -> Layer:
    batch, tokens, size, heads = (2, 16, 64, 4) if width == "small" else (4, 128, 768, 12)
    settings = load(_MODELS + "gpt2.configuration_gpt2.GPT2Config")(n_embd=size, n_head=heads)
    settings._attn_implementation = "sdpa"
    layer = load(_MODELS + "gpt2.modeling_gpt2.GPT2Block")(settings, 0)
    return Layer(
        Called(layer, lambda m, x, mask: _first(m(x, attention_mask=mask))),
        (normal(batch, tokens, size), causal_mask(tokens)),
    )


def _bloom(width: Width) -> Layer:
    batch, tokens, size, heads = (2, 16, 64, 4) if width == "small" else (1, 128, 4096, 32)
    settings = load(_MODELS + "bloom.configuration_bloom.BloomConfig")(
        hidden_size=size, n_head=heads
    )
    layer = load(_MODELS + "bloom.modeling_bloom.BloomBlock")(settings, 0)
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    alibi = (slopes[:, None, None] * torch.arange(tokens)).repeat(batch, 1, 1)
    return Layer(
        Called(layer, lambda m, x, alibi, mask: _first(m(x, alibi, mask))),
        (normal(batch, tokens, size), alibi, causal_mask(tokens)),
    )


def _opt(width: Width) -> Layer:
    batch, tokens, size, heads, inner = (
        (2, 16, 64, 4, 128) if width == "small" else (1, 128, 4096, 32, 16384)
    )
    settings = load(_MODELS + "opt.configuration_opt.OPTConfig")(
        hidden_size=size, num_attention_heads=heads, ffn_dim=inner
    )
    settings._attn_implementation = "sdpa"
    layer = load(_MODELS + "opt.modeling_opt.OPTDecoderLayer")(settings, 0)
    return Layer(
        Called(layer, lambda m, x, mask: _first(m(x, attention_mask=mask))),
        (normal(batch, tokens, size), causal_mask(tokens)),
    )


def _gptj(width: Width) -> Layer:
    tokens, size, heads, turned = (16, 64, 4, 8) if width == "small" else (128, 4096, 16, 64)
    cos, sin = (x[..., : turned // 2] for x in rotary(tokens, turned))
    return Layer(
        GPTJBlock(size, heads, turned),
        (normal(1, tokens, size), causal_mask(tokens), cos, sin),
    )


def _internlm2(width: Width) -> Layer:
    tokens, size, heads, groups, inner = (
        (16, 64, 4, 2, 128) if width == "small" else (128, 4096, 32, 8, 14336)
    )
    return Layer(
        InternLM2Layer(size, heads, groups, inner),
        (normal(1, tokens, size), causal_mask(tokens), *rotary(tokens, size // heads)),
    )


def _mla(width: Width) -> Layer:
    tokens, options = (16, {}) if width == "small" else (64, {})
    if width == "small":
        options = {
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "q_lora_rank": 32,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 16,
        }
    settings = load(_MODELS + "deepseek_v3.configuration_deepseek_v3.DeepseekV3Config")(**options)
    settings._attn_implementation = "eager"
    layer = load(_MODELS + "deepseek_v3.modeling_deepseek_v3.DeepseekV3Attention")(settings, 0)
    cos, sin = rotary(tokens, settings.qk_rope_head_dim)
    return Layer(
        Called(layer, lambda m, x, mask, cos, sin: m(x, (cos, sin), mask)[0]),
        (normal(1, tokens, settings.hidden_size), causal_mask(tokens), cos, sin),
    )


def _t5_decoder(width: Width) -> Layer:
    batch, tokens, keys, size, heads, head, inner = (
        (2, 8, 16, 64, 4, 16, 128) if width == "small" else (4, 32, 128, 768, 12, 64, 2048)
    )
    settings = load(_MODELS + "t5.configuration_t5.T5Config")(
        d_model=size, num_heads=heads, d_kv=head, d_ff=inner, feed_forward_proj="gated-gelu",
        is_decoder=True,
    )  # fmt: skip
    settings._attn_implementation = "eager"
    layer = load(_MODELS + "t5.modeling_t5.T5Block")(settings, layer_idx=0)
    bias = normal(1, heads, tokens, tokens) + causal_mask(tokens)
    cross = torch.zeros(1, heads, tokens, keys)
    return Layer(
        Called(
            layer,
            lambda m, x, memory, bias, cross: m(
                x,
                position_bias=bias,
                encoder_hidden_states=memory,
                encoder_decoder_position_bias=cross,
            )[0],
        ),
        (normal(batch, tokens, size), normal(batch, keys, size), bias, cross),
    )


def _whisper_decoder(width: Width) -> Layer:
    batch, tokens, keys, size, heads, inner = (
        (1, 8, 30, 64, 4, 128) if width == "small" else (1, 64, 1500, 1280, 20, 5120)
    )
    settings = load(_MODELS + "whisper.configuration_whisper.WhisperConfig")(
        d_model=size, decoder_attention_heads=heads, decoder_ffn_dim=inner
    )
    settings._attn_implementation = "sdpa"
    layer = load(_MODELS + "whisper.modeling_whisper.WhisperDecoderLayer")(settings, 0)
    return Layer(
        Called(
            layer,
            lambda m, x, mask, memory: _first(
                m(x, attention_mask=mask, encoder_hidden_states=memory, use_cache=False)
            ),
        ),
        (normal(batch, tokens, size), causal_mask(tokens), normal(batch, keys, size)),
    )


def _source(module: str, name: str) -> str:
    return f"{_MODELS}{module}.modeling_{module}.{name}"


def _rotary_case(
    case: str,
    name: str,
    config: str,
    dtype: torch.dtype,
    real: tuple[int, int, int, int, int],
    small: tuple[int, int, int, int] = (64, 4, 2, 128),
    **options: Any,
) -> Case:
    build = _rotary(case, name, config, small, real, **options)
    return Case(case, _source(case, name), dtype, build)


CASES = (
    Case("gpt2", _source("gpt2", "GPT2Block"), torch.float16, _gpt2),
    Case("gptj", "written after GPT-J (parallel attention and MLP)", torch.float16, _gptj),
    _rotary_case(
        "gpt_neox", "GPTNeoXLayer", "GPTNeoXConfig", torch.float16, (4096, 32, 32, 16384, 128),
        small=(64, 4, 4, 128), rotated=0.25,
    ),
    Case("bloom", _source("bloom", "BloomBlock"), torch.bfloat16, _bloom),
    Case("opt", _source("opt", "OPTDecoderLayer"), torch.float16, _opt),
    _rotary_case(
        "starcoder2", "Starcoder2DecoderLayer", "Starcoder2Config", torch.bfloat16,
        (3072, 24, 2, 12288, 128),
    ),
    _rotary_case(
        "llama", "LlamaDecoderLayer", "LlamaConfig", torch.float16, (4096, 32, 8, 14336, 128)
    ),
    _rotary_case(
        "qwen2", "Qwen2DecoderLayer", "Qwen2Config", torch.bfloat16, (3584, 28, 4, 18944, 128)
    ),
    _rotary_case(
        "qwen3", "Qwen3DecoderLayer", "Qwen3Config", torch.bfloat16, (4096, 32, 8, 12288, 128)
    ),
    _rotary_case(
        "gemma2", "Gemma2DecoderLayer", "Gemma2Config", torch.bfloat16, (2304, 8, 4, 9216, 256),
        attention="eager",
    ),
    _rotary_case(
        "gemma3", "Gemma3DecoderLayer", "Gemma3TextConfig", torch.bfloat16, (2560, 8, 4, 10240, 256)
    ),
    _rotary_case(
        "mistral", "MistralDecoderLayer", "MistralConfig", torch.bfloat16, (4096, 32, 8, 14336, 128)
    ),
    _rotary_case("phi3", "Phi3DecoderLayer", "Phi3Config", torch.float16, (3072, 32, 32, 8192, 96)),
    _rotary_case(
        "nemotron", "NemotronDecoderLayer", "NemotronConfig", torch.bfloat16,
        (4096, 32, 8, 16384, 128), partial_rotary_factor=0.5, rotated=0.5,
    ),
    _rotary_case(
        "olmo2", "Olmo2DecoderLayer", "Olmo2Config", torch.bfloat16, (4096, 32, 32, 11008, 128)
    ),
    _rotary_case(
        "cohere", "CohereDecoderLayer", "CohereConfig", torch.float16, (4096, 32, 8, 14336, 128),
    ),
    Case("internlm2", "written after InternLM 2 (fused wqkv)", torch.bfloat16, _internlm2),
    Case(
        "deepseek_v3_mla", _source("deepseek_v3", "DeepseekV3Attention"), torch.bfloat16, _mla
    ),
    Case("t5_decoder", _source("t5", "T5Block"), torch.bfloat16, _t5_decoder),
    Case(
        "whisper_decoder", _source("whisper", "WhisperDecoderLayer"), torch.float16,
        _whisper_decoder,
    ),
)  # fmt: skip
