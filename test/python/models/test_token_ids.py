"""Models that take token ids import whole: no op stays with PyTorch, and the results are the same.

The models are those of Transformers at small sizes; without the package there is nothing to test.
``docs/frontend.md`` has the table of all that were tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from mirage.frontend.torch_import import from_torch
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather
from mirage.semantics.ugraph import External
from thorough import some_of
from torch import nn

transformers: Any = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", GROUPED),
    "mistral": ("MistralConfig", {**GROUPED, "sliding_window": 8}),
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 50}),
    "bert": ("BertConfig", SMALL),
}


class Hidden(nn.Module):
    """The model with only token ids as input; the last hidden states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids)[0]


@pytest.mark.parametrize("name", some_of(list(MODELS), every=2))
def test_imports_whole(name: str) -> None:
    kind, sizes = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**sizes)
    config.use_cache = False
    config._attn_implementation = "sdpa"
    module = Hidden(transformers.AutoModel.from_config(config)).eval().float()
    ids = torch.randint(1, 50, (2, 12))
    imported = from_torch(module, ids)
    graph = imported.graph
    check_graph(graph)
    assert not any(isinstance(op, External) for op in graph.ops)
    assert any(isinstance(op, Gather) for op in graph.ops)
    held = {p.index: p.data for p in imported.program.parameters}
    given = [held.get(i, ids) for i in range(len(graph.inputs))]
    (got,) = evaluate_floats(graph, [x.detach().double().numpy() for x in given])
    with torch.no_grad():
        expected = module(ids).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-5)
