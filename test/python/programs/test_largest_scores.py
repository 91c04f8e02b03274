"""A softmax in which one score is far above the others returns that score's value unchanged."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import Launch

ROWS, SCORES, FEATURES = 8, 256, 64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
def test_one_score_is_far_above_the_others(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    scores = (torch.randn(ROWS, SCORES, generator=generator) * 2**12).to(dtype)
    values = torch.randn(SCORES, FEATURES, generator=generator).to(dtype)
    largest = scores.float().topk(2).values
    alone = largest[:, 0] - largest[:, 1] > 20
    assert alone.sum() >= ROWS // 2
    program = mi.from_torch(lambda s, v: torch.softmax(s, -1) @ v, scores, values)
    optimized = program.superoptimize(candidates=1, jobs=1, budget=20)
    assert all(isinstance(op, Launch) for op in optimized.graph.ops)
    (out,) = emulate(optimized, scores, values)
    assert torch.equal(out[alone], values[scores.argmax(-1)][alone])
