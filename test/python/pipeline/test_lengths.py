"""Programs over a part of a buffer that is known at run time, from PyTorch to PTX that the emulator
executes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from executed_programs import FEW_CHOICES, executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import Launch, Steps, loops
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(candidates=2, bounds=FEW_CHOICES | {"cuts": 20})


def rand(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).half()


def cache(keys: int, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    return rand(batch, 4, 1, 64), rand(batch, 4, keys, 64) * 0.5, rand(batch, 4, keys, 64)


def decoded(q: Tensor, k: Tensor, v: Tensor, position: Tensor) -> Tensor:
    """A decoding step as in Transformers, with a static cache."""
    mask = torch.arange(k.shape[-2]) <= position[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])


def ragged(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(k.shape[-2]) < lengths.view(-1, 1, 1, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def windowed(q: Tensor, k: Tensor, v: Tensor, position: Tensor) -> Tensor:
    """The last 100 keys up to a position."""
    i, last = torch.arange(k.shape[-2]), position[:, None]
    mask = (i <= last) & (i > last - 100)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])


def guarded(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """The program itself excludes elements beyond the length."""
    seen = torch.arange(k.shape[-2]) < lengths.view(-1, 1, 1, 1)
    k, v = (torch.where(seen.transpose(-1, -2), x, 0.0) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def steps_of(found: mi.Optimized) -> list[Steps | None]:
    kernels = [op for s in found.steps if s.graph is not None for op in s.graph.ops
               if isinstance(op, Launch)]  # fmt: skip
    return [loop.steps for kernel in kernels for loop in loops(kernel)]


def check(found: mi.Optimized, program: Callable[..., Any], *inputs: Tensor) -> None:
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        expected = program(*wide)
    (result,) = emulate(found, *inputs)
    np.testing.assert_allclose(result.double().numpy(), expected.numpy(), rtol=0, atol=5e-3)


def optimized(program: Callable[..., Any], *inputs: Tensor, chip: str = "sm_90a") -> mi.Optimized:
    imported = mi.from_torch(program, *inputs, allow_fallback=True)
    return mi.optimize(imported, replace(OPTIONS, chip=chip))


@pytest.mark.parametrize(("batch", "chip"), some_of([(1, "sm_80"), (2, "sm_90a")], every=2))
def test_a_step_of_decoding(batch: int, chip: str) -> None:
    """The kernel reads the position; there is nothing else."""
    inputs = cache(768, batch)
    found = optimized(decoded, *inputs, torch.tensor([300, 17][:batch]), chip=chip)
    assert not any(step.external for step in found.steps)
    assert any(s is not None and s.readings for s in steps_of(found))
    kept = [c.verdict for c in found.report.checked if c.kept]
    assert any(v.evidence[-1].name == "steps left out" for v in kept)
    for position in ([0, 767], [255, 256], [1 << 40, 63], [2**63 - 1, 2**32]):
        check(found, decoded, *inputs, torch.tensor(position[:batch]))


def test_a_ragged_batch() -> None:
    inputs = cache(768)
    found = optimized(ragged, *inputs, torch.tensor([300, 17]))
    assert any(s is not None and s.readings for s in steps_of(found))
    for lengths in ([1, 768], [767, 128], [10_000, 33]):
        check(found, ragged, *inputs, torch.tensor(lengths))


def test_a_window_at_a_position() -> None:
    """Both ends bound the steps, and nothing is computed outside of the kernel."""
    inputs = cache(768)
    found = optimized(windowed, *inputs, torch.tensor([300, 17]))
    assert not any(step.external for step in found.steps)
    assert any(s is not None and s.first.reads for s in steps_of(found))
    for position in ([0, 767], [99, 100], [400, 163], [600, 1]):
        check(found, windowed, *inputs, torch.tensor(position))


def test_numbers_that_the_program_keeps_out() -> None:
    q, k, v = cache(768)
    lengths = torch.tensor([300, 17])
    found = optimized(guarded, q, k, v, lengths)
    for row, length in enumerate(lengths.tolist()):
        k[row, :, length:], v[row, :, length:] = torch.nan, torch.inf
    check(found, guarded, q, k, v, lengths)


def paged(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """A cache in pages of 16 rows, which are divided among sequences."""
    k, v = (x[table].flatten(1, 2).transpose(1, 2) for x in (k, v))
    return ragged(q, k, v, lengths)


def test_pages_are_read_by_the_kernel() -> None:
    q, k, v = rand(2, 4, 1, 64), rand(96, 16, 4, 64) * 0.5, rand(96, 16, 4, 64)
    table = torch.arange(96).flip(0).reshape(2, 48)
    lengths = torch.tensor([5, 450])
    found = mi.optimize(mi.from_torch(paged, q, k, v, table, lengths), OPTIONS)
    calls = {s.external.target for s in found.steps if s.external is not None}
    assert not any("index" in target for target in calls)
    assert any(steps is not None for steps in steps_of(found))
    (result,) = emulate(found, q, k, v, table, lengths)
    want = paged(q.double(), k.double(), v.double(), table, lengths)
    torch.testing.assert_close(result.double(), want, rtol=5e-3, atol=5e-3)
    table[1, 3] = 96  # a missing page with visible rows
    (result,) = emulate(found, q, k, v, table, lengths)
    assert result[1].isnan().all()
    torch.testing.assert_close(result[0].double(), want[0], rtol=5e-3, atol=5e-3)


def test_a_ragged_batch_through_offsets() -> None:
    """The keys of all sequences follow each other; their starts are an input."""

    def packed(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> Tensor:
        rows = offsets[:-1, None] + torch.arange(768)
        rows = torch.minimum(rows, torch.tensor(k.shape[0] - 1))
        k, v = (x[rows].transpose(1, 2) for x in (k, v))
        return ragged(q, k, v, offsets[1:] - offsets[:-1])

    q, k, v = rand(2, 4, 1, 64), rand(1100, 4, 64) * 0.5, rand(1100, 4, 64)
    offsets = torch.tensor([0, 300, 317])
    found = optimized(packed, q, k, v, offsets)
    calls = {s.external.target for s in found.steps if s.external is not None}
    assert not any("index" in target for target in calls)
    assert any(s is not None and s.readings for s in steps_of(found))
    for ends in ([300, 317], [1, 769], [768, 1100]):
        check(found, packed, q, k, v, torch.tensor([0, *ends]))
