"""Attention within documents that are distinguished by ids, from PyTorch to PTX that is
executed."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import Launch
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(candidates=2, budget=300.0, use_cache=False)
LARGE = 2**45
IDS = {
    "few": [0] * 40 + [1] * 50 + [2] * 38,
    "beyond what f32 holds": [2**24] * 40 + [2**24 + 1] * 50 + [2**24 + 2] * 38,
    "any": [-LARGE - 1] * 40 + [LARGE] * 30 + [-LARGE] * 20 + [LARGE + 1] * 38,
}


def causal(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    i = torch.arange(q.shape[-2])
    mask = (ids[:, None] == ids) & (i[:, None] >= i)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def both_ways(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=ids[:, None] == ids)


@pytest.mark.parametrize("program", some_of([causal, both_ways], every=2))
def test_the_mask_is_computed_in_the_kernel(program: Callable[..., Tensor]) -> None:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 2, 128, 64, generator=generator).half() for _ in range(3))
    ids = torch.tensor(IDS["few"])
    found = mi.optimize(mi.from_torch(program, q, k, v, ids).program, OPTIONS)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    assert all(v.type.size < 128 * 128 for op in found.graph.ops for v in op.results
               if v.dtype.is_integer)  # fmt: skip
    for values in IDS.values():
        ids = torch.tensor(values)
        (actual,) = emulate(found, q, k, v, ids)
        expected = program(q.double(), k.double(), v.double(), ids)
        torch.testing.assert_close(actual.double(), expected, rtol=2e-3, atol=2e-3)
