"""Pooling with overlapping windows: kernels are found, proved and correct."""

from __future__ import annotations

import itertools
from dataclasses import replace

import mirage as mi
import pytest
import torch
from executed_programs import FEW_CHOICES, executed
from mirage.frontend.torch_import import ImportedGraph
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.semantics.ugraph import Launch, launches
from thorough import some_of
from torch import nn

OPTIONS = executed(candidates=2, budget=300.0, use_cache=False)
SHAPE = (2, 8, 7, 10)
POOLS: dict[str, nn.Module] = {
    "as PoolFormer's": nn.AvgPool2d(3, 1, 1, count_include_pad=False),
    "with what is padded": nn.AvgPool2d(3, 1, 1),
    "in steps": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "not padded": nn.AvgPool2d(2, 1),
    "with a shorter last one": nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False),
    "of two sizes": nn.AvgPool2d((5, 3), (1, 2), (2, 1), count_include_pad=False),
    "of maxima": nn.MaxPool2d(3, 2, 1),
}


def pooled(pool: nn.Module, dtype: torch.dtype) -> tuple[ImportedGraph, torch.Tensor]:
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(2)).to(dtype)
    return mi.from_torch(lambda x: torch.relu(pool(2.0 * x)) - x.mean(), x), x


@pytest.mark.parametrize(
    ("name", "dtype"), some_of(zip(POOLS, itertools.cycle([torch.float16, torch.float32])), 9)
)
def test_a_kernel_is_shown_for_windows(name: str, dtype: torch.dtype) -> None:
    imported, _ = pooled(POOLS[name], dtype)
    found = optimize(imported.program, replace(OPTIONS, compile=False))
    assert [c.kept for c in found.verdicts] == [True]
    assert not found.report.notes
    # the padding is not a tensor that a kernel writes
    assert all(launch.operands for launch in launches(found.graph.ops))


def test_constants_that_a_kernel_stores_are_not_made_again() -> None:
    """In the first plans a kernel stores the padding of windows, which joins read."""
    imported, x = pooled(POOLS["as PoolFormer's"], torch.float32)
    found = optimize(imported.program, replace(OPTIONS, bounds=FEW_CHOICES))
    (actual,) = emulate(found, x)
    expected = torch.relu(POOLS["as PoolFormer's"](2.0 * x)) - x.mean()
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", some_of(["as PoolFormer's", "of two sizes"], every=2))
def test_what_is_compiled_is_right(name: str) -> None:
    imported, x = pooled(POOLS[name], torch.float32)
    found = optimize(imported.program, OPTIONS)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    (actual,) = emulate(found, x)
    expected = torch.relu(POOLS[name](2.0 * x)) - x.mean()
    torch.testing.assert_close(actual, expected)
