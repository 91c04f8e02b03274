"""Decoding with a cache that grows: a bounded number of programs for any number of lengths."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from torch_programs.op_by_op import op_by_op

transformers: Any = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 128,
}
LENGTHS = 40


def decoded(model: Any) -> list[torch.Tensor]:
    """Logits of the greedy tokens that follow a prompt."""
    cache, ids = transformers.DynamicCache(), torch.arange(1, 13)[None]
    found: list[torch.Tensor] = []
    with torch.no_grad():
        for _ in range(LENGTHS):
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits
            found.append(logits[:, -1])
            ids = logits[:, -1:].argmax(-1)
    return found


def test_a_growing_cache_is_decoded_with_few_programs() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).eval()
    reports: list[Report] = []
    programs = 0

    def compiled(program: Program, options: Mapping[str, Any]) -> Any:
        nonlocal programs
        programs += 1
        return op_by_op(program, options)

    host = partial(backend, compiler=compiled, devices=("cpu",), watch=reports.append)
    got, want = decoded(torch.compile(model, backend=host)), decoded(model)
    torch.testing.assert_close(torch.stack(got), torch.stack(want), rtol=1e-4, atol=1e-4)
    assert torch.equal(torch.stack(got).argmax(-1), torch.stack(want).argmax(-1))
    # a prompt, a first step, and for each of two graphs of all other steps one length as a whole,
    # three pieces, and for one room of keys the numbers of their rows and attention
    assert programs <= 2 + 2 * (1 + 3 + 2)
    assert not any(r.reason for r in reports)
