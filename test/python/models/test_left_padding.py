"""A batch of prompts that are padded on the left: tokens of padding attend to nothing, and must not
affect other tokens."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
from torch_programs.op_by_op import op_by_op

transformers = pytest.importorskip("transformers")


class _Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits


def test_a_decoder_of_two_layers() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    model = _Logits(transformers.LlamaForCausalLM(config).eval())
    ids = torch.randint(0, 128, (3, 16))
    mask = (torch.arange(16)[None] >= torch.tensor([0, 5, 9])[:, None]).long()
    with torch.no_grad():
        expected = model(ids, mask)
    assert expected.isfinite().all()
    (got,) = op_by_op(mi.from_torch(model, ids, mask, allow_fallback=True).program, {})(ids, mask)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
