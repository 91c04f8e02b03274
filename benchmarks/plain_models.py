"""The class of each decoder in plain PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from decoder_models import Decoder
from decoders import Capped, Latent
from plain_capped import PlainCapped
from plain_decoder import Attention, PlainDecoder
from plain_latent import PlainLatent


def plain(
    decoder: Decoder,
    weights: Mapping[str, torch.Tensor],
    attention: Attention = "masked",
    dtype: torch.dtype | None = None,
) -> PlainDecoder:
    """Return ``decoder`` with ``weights`` in plain PyTorch."""
    kinds = ((Capped, PlainCapped), (Latent, PlainLatent))
    kind = next((plain for shape, plain in kinds if isinstance(decoder, shape)), PlainDecoder)
    return kind(decoder, weights, attention, dtype)
