"""Integers that are summed, or whose maximum is taken, in kernels, as long as f32 holds all
intermediate values."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
from executed_programs import FEW_CHOICES, executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.integer_totals import IntegerReduce
from mirage.semantics.ugraph import External
from mirage.transforms.partition.exact_integers import integers_as_calls
from thorough import some_of
from torch.nn import functional as F

Tensor = torch.Tensor
OPTIONS = executed(budget=60.0, use_cache=False, bounds=FEW_CHOICES)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def small(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)


TARGETS = torch.tensor([3, -100, 0, 7, -100, 2, 9, 1])
WHOLE: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "labels": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), (normal(8, 10), TARGETS)),
    "a share": (lambda x: (x > 0).sum() / x.abs().sum(), (normal(16, 512),)),
    "counts": (lambda x: (x > 0).sum(-1).float() * 2, (normal(4, 1 << 12),)),
    "the largest": (lambda x: (x > 0).long().amax(-1).float() + x.sum(-1), (normal(8, 64),)),
    "bytes": (lambda x, y: x.long().sum(-1).float() * y, (small(8, 64), normal(8))),
    "a factor": (lambda x: ((x > 0).sum(-1, keepdim=True) * x) @ x.T, (normal(8, 64),)),
    "that is returned": (lambda x: (x > 0).sum(-1), (normal(8, 64),)),
}


@pytest.mark.parametrize("name", some_of(WHOLE, every=4))
def test_small_sums_have_kernels(name: str) -> None:
    program, inputs = WHOLE[name]
    optimized = mi.optimize(mi.from_torch(program, *inputs), OPTIONS)
    assert not any(isinstance(op, External) for op in optimized.graph.ops)
    (got,) = emulate(optimized, *inputs)
    torch.testing.assert_close(got, program(*inputs), rtol=1e-5, atol=1e-4)


LARGE: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "beyond 2^24": (lambda x: x.long().sum(-1).float(), (small(1, (1 << 17) + 1),)),
    "of any number": (lambda x: x.sum(-1).float(), (torch.arange(64).reshape(8, 8),)),
    "of any number, returned": (lambda x: x.sum(-1), (torch.arange(64).reshape(8, 8),)),
}


@pytest.mark.parametrize("name", LARGE)
def test_other_sums_are_of_exact_integers(name: str) -> None:
    program, inputs = LARGE[name]
    graph = integers_as_calls(mi.from_torch(program, *inputs).graph)
    assert any(isinstance(op, IntegerReduce) for op in graph.ops)
    assert not any("sum" in op.target for op in graph.ops if isinstance(op, External))


WRAPPED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a product": lambda i, x: (i * i).float() * x,
    "a sum": lambda i, x: (i + i).float() * x,
    "what has no negative": lambda i, x: (-i).abs().float() * x,
    "a shift": lambda i, x: (i << 3).float() * x,
    "the least": lambda i, x: (i.amin(-1, keepdim=True) - 1).float() * x,
}


@pytest.mark.parametrize("name", some_of(WRAPPED, every=2))
def test_integers_that_leave_their_type_begin_anew_at_its_other_end(name: str) -> None:
    program, inputs = WRAPPED[name], (small(8, 64), normal(8, 64))
    optimized = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    (got,) = emulate(optimized, *inputs)
    torch.testing.assert_close(got, program(*inputs), rtol=1e-5, atol=1e-4)
