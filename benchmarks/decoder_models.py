"""Large language models by their published configurations: sizes, weights, calls and costs.

This needs only PyTorch, so that weights of the right names and shapes can be made on the machine
where a model is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

BANDWIDTH = 4.57e12
"""Bytes per second of a streaming read on an H200."""
ARITHMETIC = 790e12
"""Flops per second of a large product of matrices in bf16."""
GAIN = 0.1
"""Random gains of norms are 1 ± this."""


@dataclass(frozen=True)
class Decoder:
    """A decoder with grouped heads, rotary positions, RMS norms and a gated MLP; sizes in elements.
    ``normed`` says that queries and keys are normalized, as in Qwen3. ``kind`` is the prefix of its
    classes in Transformers."""

    name: str
    kind: str
    vocabulary: int
    width: int
    inner: int
    layers: int
    heads: int
    shared: int
    head: int
    base: float
    eps: float
    normed: bool = False
    tied: bool = False
    """Whether the last product uses the table of the tokens."""
    gain: float = 1.0
    """The mean of the weights of norms."""

    def with_layers(self, layers: int | None) -> Decoder:
        """Return the model with this number of layers; None keeps it."""
        return self if layers is None else replace(self, layers=layers)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the weights by their names in Transformers' state dict."""
        queries, keys = self.heads * self.head, self.shared * self.head
        found: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocabulary, self.width)
        }
        for number in range(self.layers):
            layer = f"model.layers.{number}."
            found |= {
                layer + "self_attn.q_proj.weight": (queries, self.width),
                layer + "self_attn.k_proj.weight": (keys, self.width),
                layer + "self_attn.v_proj.weight": (keys, self.width),
                layer + "self_attn.o_proj.weight": (self.width, queries),
                layer + "mlp.gate_proj.weight": (self.inner, self.width),
                layer + "mlp.up_proj.weight": (self.inner, self.width),
                layer + "mlp.down_proj.weight": (self.width, self.inner),
                layer + "input_layernorm.weight": (self.width,),
                layer + "post_attention_layernorm.weight": (self.width,),
            }
            if self.normed:
                found |= {
                    layer + "self_attn.q_norm.weight": (self.head,),
                    layer + "self_attn.k_norm.weight": (self.head,),
                }
        found["model.norm.weight"] = (self.width,)
        if not self.tied:
            found["lm_head.weight"] = (self.vocabulary, self.width)
        return found

    def configuration(self) -> dict[str, Any]:
        """Return the sizes by Transformers' names."""
        return {
            "vocab_size": self.vocabulary, "hidden_size": self.width,
            "intermediate_size": self.inner, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.shared,
            "head_dim": self.head, "rms_norm_eps": self.eps, "max_position_embeddings": 8192,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.base},
            "tie_word_embeddings": self.tied, "attn_implementation": "sdpa",
        }  # fmt: skip

    @property
    def precise(self) -> tuple[str, ...]:
        """The ends of the names of weights that stay in float32, whatever the type of the
        others."""
        return ()

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms of attention in plain PyTorch that differ."""
        return "masked", "full", "written"

    def cached(self, use: Use) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the two tensors that a layer keeps, with tokens in dimension 2: keys and
        values."""
        shape = (use.rows, self.shared, use.cache, self.head)
        return shape, shape

    def active(self, tokens: int) -> Iterator[tuple[float, float]]:
        """Yield, for each weight of the layers and of the last norm, the number of elements that
        this many tokens read, and the number with which one token is multiplied."""
        for name, shape in self.shapes().items():
            if "embed" not in name and "lm_head" not in name:
                yield elements(shape), elements(shape) * (len(shape) > 1)

    def attending(self, use: Use) -> int:
        """Flops of one query in all heads of a layer with one key and its value."""
        return 4 * self.heads * self.head


@dataclass(frozen=True)
class Use:
    """A call: ``rows`` sequences, each with this number of new ``tokens`` and room for ``cache``
    tokens in the cache. A single new token is the last one of a full cache; several are a prompt,
    which begins at position 0."""

    name: str
    rows: int
    tokens: int
    cache: int

    @property
    def decodes(self) -> bool:
        """Whether it is a decoding step."""
        return self.tokens == 1


USES = {
    u.name: u
    for u in (
        Use("decode_b1", 1, 1, 4096),
        Use("decode_b8", 8, 1, 4096),
        Use("decode_b32", 32, 1, 4096),
        Use("prefill", 1, 2048, 4096),
        Use("tiny_decode", 2, 1, 32),
        Use("tiny_prefill", 1, 16, 32),
    )
}


def random_weights(
    decoder: Decoder, device: str | torch.device, dtype: torch.dtype, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Make weights of the order of one over the root of the length of their sums, so that
    activations stay of order one, and gains near one, all of type ``dtype`` except for
    ``decoder.precise``."""
    generator = torch.Generator(device).manual_seed(seed)
    found: dict[str, torch.Tensor] = {}
    for name, shape in decoder.shapes().items():
        stored = torch.float32 if name.endswith(decoder.precise) else dtype
        x = torch.empty(shape, dtype=stored, device=device).normal_(generator=generator)
        if len(shape) == 1:
            x = x.mul_(GAIN).add_(decoder.gain)
        elif "embed" not in name or decoder.tied:
            x = x.mul_(shape[-1] ** -0.5)
        found[name] = x
    if decoder.tied:
        found["lm_head.weight"] = found["model.embed_tokens.weight"]
    return found


def arguments(
    decoder: Decoder, use: Use, device: str | torch.device, dtype: torch.dtype, seed: int = 1
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    """Token ids (rows, tokens), their positions (tokens), and the keys and values of each layer
    (``decoder.cached``), which a call writes to."""
    generator = torch.Generator(device).manual_seed(seed)
    ids = torch.randint(
        decoder.vocabulary, (use.rows, use.tokens), generator=generator, device=device
    )
    first = use.cache - 1 if use.decodes else 0
    positions = torch.arange(first, first + use.tokens, device=device)

    def caches(shape: tuple[int, ...]) -> list[torch.Tensor]:
        made: list[torch.Tensor] = []
        for _ in range(decoder.layers):
            x = torch.zeros(shape, dtype=dtype, device=device)
            made.append(x.normal_(generator=generator) if use.decodes else x)
        return made

    keys, values = decoder.cached(use)
    return ids, positions, caches(keys), caches(values)


def costs(decoder: Decoder, use: Use, width: int = 2) -> dict[str, Any]:
    """Return the least work of a call: ``bytes`` of weights and caches that are read and written
    (``width`` bytes per element), ``flops``, and the ``floor`` in µs, the larger of the times of
    both.
    """
    tokens = use.rows * use.tokens
    active = list(decoder.active(tokens))
    table = decoder.vocabulary * decoder.width
    looked_up = 0 if decoder.tied else min(tokens, decoder.vocabulary) * decoder.width
    read = sum(r for r, _ in active) + table + looked_up
    seen = use.cache if use.decodes else use.tokens  # those of a prompt are written
    cached = decoder.layers * sum(elements(s) // use.cache * seen for s in decoder.cached(use))
    flops = 2 * sum(u for _, u in active) * tokens + 2 * table * use.rows
    pairs = use.rows * (use.cache if use.decodes else use.tokens * (use.tokens + 1) // 2)
    flops += decoder.layers * decoder.attending(use) * pairs
    moved = width * (read + cached)
    floor = max(moved / BANDWIDTH, flops / ARITHMETIC) * 1e6
    return {"bytes": moved, "flops": flops, "floor": floor}


def elements(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a tensor."""
    count = 1
    for n in shape:
        count *= n
    return count
