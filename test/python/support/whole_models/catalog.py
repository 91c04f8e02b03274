"""The models, and their small sizes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

VOCABULARY = 96
LENGTH = 12
"""Tokens of a prompt."""
LONGEST = 96
"""The largest number of tokens of a prompt and its continuation."""
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": LONGEST,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
TWO = {"num_hidden_layers": 2}
HEADS = {"head_dim": 8}
IMAGE: dict[str, Any] = {
    "image_size": 16, "patch_size": 4, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 1, "num_attention_heads": 4,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2}
WINDOW = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
"""One layer with a window, and one without."""

Use = Literal["decode", "tokens", "pairs", "image", "both", "speech", "latent"]
"""How a model is called: a prompt and greedy tokens after it; token ids once; ids for an encoder
and for a decoder, then greedy tokens; an image; an image and ids; a spectrogram and greedy tokens;
an image that is denoised."""


@dataclass(frozen=True)
class Model:
    """A class of ``package`` built from a configuration."""

    name: str
    title: str
    kind: str
    sizes: dict[str, Any]
    use: Use = "decode"
    package: str = "transformers"
    nested: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Nested configurations."""

    def build(self) -> Any:
        """Return the module in evaluation mode. Weights are of the order of one over the root of
        their width, so that each op has an effect on the results."""
        package = importlib.import_module(self.package)
        kind = getattr(package, self.kind)
        torch.manual_seed(0)
        if self.package == "diffusers":
            module = kind(**self.sizes)
        else:
            config = kind.config_class(**self.sizes, **self.nested)
            module = kind(config)
        with torch.no_grad():
            for parameter in module.parameters():
                noise = torch.randn_like(parameter)
                if parameter.dim() > 1:
                    parameter.copy_(noise / parameter[0].numel() ** 0.5)
                else:
                    parameter.add_(0.1 * noise)
        return module.eval().requires_grad_(False)


def _decoder(name: str, title: str, prefix: str, sizes: dict[str, Any]) -> Model:
    return Model(name, title, f"{prefix}ForCausalLM", sizes)


_LATENT = {
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
}  # fmt: skip
_T5 = {
    "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4,
    "decoder_start_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
_WHISPER = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "num_mel_bins": 8, "max_source_positions": 16,
    "max_target_positions": LONGEST, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
_TEXT = {**SMALL, "projection_dim": 32}

MODELS: tuple[Model, ...] = (
    _decoder("llama3", "Llama 3", "Llama", {**GROUPED, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
    }}),
    _decoder("qwen2", "Qwen 2", "Qwen2", GROUPED),
    _decoder("qwen3", "Qwen 3", "Qwen3", {**GROUPED, **HEADS}),
    _decoder("gemma2", "Gemma 2", "Gemma2", {**GROUPED, **HEADS, **TWO, "sliding_window": 8}),
    _decoder("gemma3", "Gemma 3", "Gemma3", {**GROUPED, **HEADS, **TWO, "sliding_window": 8,
             "layer_types": ["sliding_attention", "full_attention"]}),
    _decoder("mistral", "Mistral", "Mistral", {**GROUPED, "sliding_window": 8}),
    _decoder("phi3", "Phi-3", "Phi3", {**GROUPED, "pad_token_id": 0}),
    Model("gpt2", "GPT-2", "GPT2LMHeadModel", {
        "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": LONGEST, "vocab_size": VOCABULARY,
    }),
    _decoder("neox", "GPT-NeoX", "GPTNeoX", SMALL),
    _decoder("gptj", "GPT-J", "GPTJ", {
        "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": LONGEST, "vocab_size": VOCABULARY,
        "rotary_dim": 4,
    }),
    _decoder("bloom", "BLOOM", "Bloom", {
        "hidden_size": 32, "n_layer": 1, "n_head": 4, "vocab_size": VOCABULARY,
    }),
    _decoder("mixtral", "Mixtral", "Mixtral", {**GROUPED, **EXPERTS, "num_local_experts": 4}),
    _decoder("deepseek2", "DeepSeek-V2", "DeepseekV2", {
        **SMALL, **_LATENT, "num_hidden_layers": 2, "topk_method": "greedy",
    }),
    _decoder("deepseek3", "DeepSeek-V3", "DeepseekV3", {**SMALL, **_LATENT, **TWO}),
    _decoder("opt", "OPT", "OPT", {
        "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1, "ffn_dim": 48,
        "num_attention_heads": 4, "max_position_embeddings": LONGEST, "word_embed_proj_dim": 32,
    }),
    _decoder("starcoder2", "StarCoder 2", "Starcoder2", GROUPED),
    _decoder("falcon", "Falcon", "Falcon", {
        "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 4, "ffn_hidden_size": 48,
    }),
    _decoder("cohere", "Cohere", "Cohere", {**GROUPED, "pad_token_id": 0}),
    _decoder("olmo2", "OLMo 2", "Olmo2", GROUPED),
    _decoder("nemotron", "Nemotron", "Nemotron", GROUPED),
    _decoder("gpt_oss", "GPT-OSS", "GptOss", {
        **GROUPED, **HEADS, **TWO, **EXPERTS, "num_local_experts": 4, "sliding_window": 8,
    }),
    _decoder("mamba", "Mamba", "Mamba", {
        "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 4,
        "time_step_rank": 4,
    }),
    _decoder("cohere2", "Cohere 2", "Cohere2", {
        **GROUPED, **HEADS, **TWO, **WINDOW, "pad_token_id": 0,
    }),
    _decoder("granite", "Granite", "Granite", {
        **GROUPED, "embedding_multiplier": 2.0, "residual_multiplier": 0.5,
        "attention_multiplier": 0.3, "logits_scaling": 3.0,
    }),
    _decoder("phi_moe", "Phi-MoE", "Phimoe", {
        **GROUPED, "num_local_experts": 4, "pad_token_id": 0,
    }),
    _decoder("smollm3", "SmolLM3", "SmolLM3", {
        **GROUPED, **TWO, "pad_token_id": 0, "no_rope_layers": [1, 0],
    }),
    _decoder("glm4", "GLM-4", "Glm4", {**GROUPED, **HEADS, "pad_token_id": 0}),
    _decoder("exaone4", "EXAONE 4", "Exaone4", {**GROUPED, **TWO, **WINDOW}),
    _decoder("qwen3_moe", "Qwen 3 MoE", "Qwen3Moe", {
        **GROUPED, **HEADS, **EXPERTS, "num_experts": 4, "moe_intermediate_size": 16,
    }),
    _decoder("llama4", "Llama 4", "Llama4", {
        **GROUPED, **HEADS, **TWO, "intermediate_size_mlp": 48, "num_local_experts": 2,
        "interleave_moe_layer_step": 2, "attention_chunk_size": 8, "no_rope_layers": [1, 0],
    }),
    _decoder("gpt_neo", "GPT-Neo", "GPTNeo", {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": LONGEST,
        "vocab_size": VOCABULARY, "attention_types": [[["global", "local"], 1]], "window_size": 8,
    }),
    _decoder("mpt", "MPT", "Mpt", {
        "d_model": 32, "n_layers": 1, "n_heads": 4, "max_seq_len": LONGEST,
        "vocab_size": VOCABULARY,
    }),
    _decoder("lfm2", "LFM2", "Lfm2", {
        **GROUPED, **TWO, "layer_types": ["conv", "full_attention"],
    }),
    _decoder("mamba2", "Mamba 2", "Mamba2", {
        "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 8,
        "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8,
    }),
    Model("bert", "BERT", "BertModel", SMALL, "tokens"),
    Model("albert", "ALBERT", "AlbertModel", {**SMALL, "embedding_size": 16}, "tokens"),
    Model("xlm_roberta", "XLM-R", "XLMRobertaModel", {**SMALL, "pad_token_id": 1}, "tokens"),
    Model("modernbert", "ModernBERT", "ModernBertModel", {
        **SMALL, **TWO, "local_attention": 8, "global_attn_every_n_layers": 2, "pad_token_id": 0,
        "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
    }, "tokens"),
    Model("distilbert", "DistilBERT", "DistilBertModel", {
        "vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 1, "n_heads": 4,
        "max_position_embeddings": LONGEST,
    }, "tokens"),
    Model("deberta2", "DeBERTa v2", "DebertaV2Model", {
        **SMALL, "relative_attention": True, "position_buckets": 8,
        "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "share_att_key": True,
    }, "tokens"),
    Model("t5", "T5", "T5ForConditionalGeneration", _T5, "pairs"),
    Model("bart", "BART", "BartForConditionalGeneration", {
        "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48, "max_position_embeddings": LONGEST, "forced_eos_token_id": None,
        "pad_token_id": 0,
    }, "pairs"),
    Model("whisper", "Whisper", "WhisperForConditionalGeneration", _WHISPER, "speech"),
    Model("vit", "ViT", "ViTModel", IMAGE, "image"),
    Model("deit", "DeiT", "DeiTModel", IMAGE, "image"),
    Model("beit", "BEiT", "BeitModel", {**IMAGE, "use_relative_position_bias": True}, "image"),
    Model("dinov2", "DINOv2", "Dinov2Model", IMAGE, "image"),
    Model("swin", "Swin", "SwinModel", {
        "image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4],
        "window_size": 4,
    }, "image"),
    Model("convnext", "ConvNeXt", "ConvNextModel", {
        "hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "image_size": 16,
    }, "image"),
    Model("sam", "SAM", "SamVisionModel", {
        **{k: v for k, v in IMAGE.items() if k != "intermediate_size"}, "mlp_dim": 48,
        "num_hidden_layers": 2, "output_channels": 8, "window_size": 3,
        "global_attn_indexes": [1], "num_pos_feats": 4,
    }, "image"),
    Model("clip", "CLIP", "CLIPModel", {"projection_dim": 32}, "both", nested={
        "text_config": {**_TEXT, "eos_token_id": 5},
        "vision_config": {**IMAGE, "projection_dim": 32},
    }),
    Model("siglip", "SigLIP", "SiglipModel", {}, "both", nested={
        "text_config": {**SMALL, "max_position_embeddings": LENGTH, "projection_size": 32},
        "vision_config": IMAGE,
    }),
    Model("dit", "DiT", "DiTTransformer2DModel", {
        "num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4, "out_channels": 8,
        "num_layers": 1, "sample_size": 8, "patch_size": 2, "num_embeds_ada_norm": 10,
    }, "latent", "diffusers"),
)  # fmt: skip


def model(name: str) -> Model:
    """Return a model by its name."""
    return next(m for m in MODELS if m.name == name)
