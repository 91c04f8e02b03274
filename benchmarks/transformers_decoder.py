"""Transformers' own class of a decoder, in the form for serving; weights take no memory."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from decoder_models import Decoder, Use
from torch import nn
from transformers.cache_utils import Cache, StaticLayer
from transformers.initialization import no_init_weights


def config_of(decoder: Decoder) -> Any:
    """Return the configuration."""
    kind = getattr(transformers, f"{decoder.kind}Config")
    return kind(**decoder.configuration())


def untouched(decoder: Decoder, dtype: torch.dtype) -> Any:
    """Return the model with weights that have never been written: the system has given them no
    memory."""
    kind = getattr(transformers, f"{decoder.kind}ForCausalLM")
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with no_init_weights():
            model = kind(config_of(decoder))
    finally:
        torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)


class Served(nn.Module):
    """A step of decoding, or a prompt: token ids, positions and caches in, logits of the last token
    out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> torch.Tensor:
        """The logits; keys and values of the new tokens are written to the caches."""
        layer = _Given if ids.shape[1] == 1 else _Begun
        pairs = zip(keys, values, strict=True)
        cache = Cache(layers=[layer(k, v, positions) for k, v in pairs])
        found = self.model(
            input_ids=ids, position_ids=positions[None], past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        return found.logits


class _Given(StaticLayer):
    """A cache of the caller; new keys go to ``positions``."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> None:
        super().__init__(keys.shape[2])
        self.keys, self.values, self.positions = keys, values, positions
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values to attend to."""
        self.keys.index_copy_(2, self.positions, key_states)
        self.values.index_copy_(2, self.positions, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> Any:
        """Return the number of tokens before the new ones."""
        return self.positions[0]


class _Begun(_Given):
    """An empty cache, to be filled from its start: new tokens attend only to each other."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values to attend to."""
        super().update(key_states, value_states)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of visible keys, and where they begin."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Return the number of tokens before the new ones."""
        return 0


def served(decoder: Decoder, dtype: torch.dtype) -> Served:
    """Return the module to export."""
    return Served(untouched(decoder, dtype))


def example(decoder: Decoder, use: Use, dtype: torch.dtype) -> tuple[Any, ...]:
    """Return arguments without memory, like those of ``decoder_models.arguments``."""
    caches = [
        [torch.empty(shape, dtype=dtype) for _ in range(decoder.layers)]
        for shape in decoder.cached(use)
    ]
    ids = torch.zeros(use.rows, use.tokens, dtype=torch.int64)
    return ids, torch.arange(use.tokens), *caches
