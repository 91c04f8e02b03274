"""Transformers' own class of an encoder; weights take no memory."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from encoder_models import Encoder
from torch import nn
from transformers.initialization import no_init_weights


def untouched(encoder: Encoder, dtype: torch.dtype) -> Any:
    """Return the model with weights that have never been written: the system has given them no
    memory."""
    sizes = {
        "hidden_size": encoder.width, "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads, "intermediate_size": encoder.inner,
        "layer_norm_eps": encoder.eps, "attn_implementation": "sdpa",
    }  # fmt: skip
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with no_init_weights():
            if encoder.vocabulary:
                config: Any = transformers.BertConfig(vocab_size=encoder.vocabulary, **sizes)
                model: Any = transformers.BertModel(config, add_pooling_layer=False)
            else:
                config = transformers.ViTConfig(
                    image_size=encoder.side, patch_size=encoder.patch, **sizes
                )
                model = transformers.ViTModel(config, add_pooling_layer=False)
    finally:
        torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)


class Encoded(nn.Module):
    """Token ids or images in, the last hidden state out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the model for one batch."""
        return self.model(x).last_hidden_state
