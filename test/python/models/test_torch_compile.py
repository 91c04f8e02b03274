"""Models as people have them under ``torch.compile(backend="mirage")``: which graphs are imported,
which calls stay with PyTorch, and that results and greedy tokens are those of PyTorch.

What is imported is computed op by op, without a search: what the backend does is what is tested.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.torch.graph_compiler import backend
from torch_programs.op_by_op import op_by_op

transformers: Any = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
MODELS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "llama": ("Llama", {**SMALL, "num_key_value_heads": 2}, set()),
    "bloom": ("Bloom", {"hidden_size": 32, "n_layer": 1, "n_head": 4, "vocab_size": 50}, set()),
}
"""The name of the model, its configuration, and the ops that stay with PyTorch."""


host = partial(backend, compiler=op_by_op, devices=("cpu",))


def small(name: str) -> Any:
    kind, sizes, _ = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval().requires_grad_(False)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_one_graph(name: str) -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    model = small(name)
    ids = torch.randint(1, 50, (2, 12))
    (graph,) = mirage.torch.explain(model, ids, compiler=op_by_op, devices=("cpu",)).graphs
    assert not graph.reason
    assert {call.split(".")[1] for call in graph.calls} == MODELS[name][2]
    got = torch.compile(model, backend=host)(ids).logits
    torch.testing.assert_close(got, model(ids).logits, rtol=1e-4, atol=1e-5)


def test_decoding_writes_into_the_cache(caplog: pytest.LogCaptureFixture) -> None:
    """Greedy tokens, with a cache of fixed size that each step updates in place."""
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    model = small("llama")
    ids = torch.randint(1, 50, (2, 7))
    chosen: dict[str, Any] = {
        "max_new_tokens": 5,
        "do_sample": False,
        "cache_implementation": "static",
        "disable_compile": True,
        "attention_mask": torch.ones_like(ids),
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    expected = model.generate(ids, **chosen)
    model.forward = torch.compile(model.forward, backend=host)
    assert torch.equal(model.generate(ids, **chosen), expected)
    assert "stays with PyTorch" not in caplog.text
