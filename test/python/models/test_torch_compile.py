"""A model as people use it: ``mirage.torch.explain`` says that it is one graph, of which nothing
stays with PyTorch. The imported program is computed op by op, without a search, since the test is
about the backend. Results and greedy tokens are those of ``test_whole_models.py``.
"""

from __future__ import annotations

from typing import Any

import mirage.torch
import pytest
import torch
from torch_programs.op_by_op import op_by_op

transformers: Any = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}


def test_a_model_is_one_graph() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).eval()
    ids = torch.randint(1, 50, (2, 12))
    (graph,) = mirage.torch.explain(model, ids, compiler=op_by_op, devices=("cpu",)).graphs
    assert not graph.reason
    assert not graph.calls
