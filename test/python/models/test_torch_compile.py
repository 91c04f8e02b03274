"""Models as people have them under ``torch.compile(backend="mirage")``: which graphs are imported,
which calls stay with PyTorch, and that results and greedy tokens are those of PyTorch.

What is imported is computed op by op, without a search: what the backend does is what is tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import mirage.torch
import numpy as np
import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.call import call_external
from mirage.runtime.manifest import TORCH_NAMES
from mirage.semantics.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import External, KernelGraph
from mirage.torch.backend import backend

transformers: Any = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
MODELS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "llama": ("Llama", {**SMALL, "num_key_value_heads": 2}, {"cos", "sin"}),
    "bloom": ("Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50}, set()),
}
"""The name of the model, its configuration, and the ops that stay with PyTorch."""


def op_by_op(program: Program, options: Mapping[str, Any]) -> Any:
    def call(*tensors: torch.Tensor) -> tuple[Any, ...]:
        graph = program.graph
        values: dict[Any, Any] = dict(zip(graph.inputs, tensors, strict=True))
        for op in graph.ops:
            if isinstance(op, External):
                values.update(zip(op.results, call_external(op, values), strict=True))
                continue
            one = KernelGraph("one", tuple(dict.fromkeys(op.operands)), (op,), op.results)
            inputs = [values[v].double().numpy() for v in one.inputs]
            for v, y in zip(op.results, evaluate_floats(one, inputs, TypedFloat()), strict=True):
                dtype = getattr(torch, TORCH_NAMES[v.dtype.value])
                values[v] = torch.from_numpy(np.array(y)).to(dtype).reshape(v.shape)
        return program.returned([values[v] for v in graph.outputs])

    return call


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
