"""Attention with masks of blocks, from PyTorch to PTX that is executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import axis_extents, launches, loops
from thorough import some_of
from torch import nn

Tensor = torch.Tensor
OPTIONS = executed(budget=300.0, use_cache=False, chip="sm_90a")
N = 384


def in_blocks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i = torch.arange(N)
    scores = (q @ k.transpose(-1, -2)).masked_fill(i[:, None] // 128 != i // 128, -torch.inf)
    return scores.softmax(-1) @ v


class Documents(nn.Module):
    """The ids are known when the program is compiled."""

    def __init__(self) -> None:
        super().__init__()
        ids = torch.cat([torch.full((n,), n) for n in (60, 40, 10, 82)])
        self.register_buffer("ids", ids.repeat_interleave(2), persistent=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen = self.ids[:, None] == self.ids
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


class Triangle(nn.Module):
    """The mask is a constant that is added to the scores."""

    def __init__(self) -> None:
        super().__init__()
        mask = torch.full((N, N), -torch.inf).triu(1).half()
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2) + self.mask.to(q.dtype)).softmax(-1) @ v


PROGRAMS = {"blocks": in_blocks, "documents": Documents(), "triangle": Triangle()}


@pytest.mark.parametrize("program", some_of(PROGRAMS.values(), every=2), ids=PROGRAMS)
def test_steps_without_keys_are_left_out(program: Callable[..., Tensor]) -> None:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(N, 16, generator=generator).half() for _ in range(3))
    found = mi.optimize(mi.from_torch(program, q, k, v).program, OPTIONS)
    launch = next(launches(found.graph.ops))
    (loop,) = loops(launch)
    assert loop.steps is not None, found.describe()
    counts = loop.steps.counts(axis_extents(launch), loop.axis.extent)
    assert counts.mean() < (0.75 if isinstance(program, Triangle) else 0.6) * loop.axis.extent
    (actual,) = emulate(found, q, k, v)
    expected = program(q.double(), k.double(), v.double())
    torch.testing.assert_close(actual.double(), expected, rtol=2e-3, atol=2e-3)


def test_the_predicted_time_is_that_of_the_blocks() -> None:
    def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    def causal_blocks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        i = torch.arange(4096)
        seen = (i[:, None] // 512 == i // 512) & (i <= i[:, None])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    inputs = [torch.empty(1, 8, 4096, 64, dtype=torch.float16) for _ in range(3)]
    options = replace(OPTIONS, chip="h200", compile=False, numerics=False)
    times: list[float] = []
    for program in (dense, causal_blocks):
        found = mi.optimize(mi.from_torch(program, *inputs).program, options).report.prediction
        assert found is not None
        times.append(found.time)
    assert times[1] < times[0] / 5
