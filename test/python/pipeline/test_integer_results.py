"""Integers and truth values that kernels write, from PyTorch to PTX that the emulator executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed()
PAD = 7


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


IDS = torch.tensor([[3, 2**40, 9, PAD, PAD], [11, PAD, PAD, PAD, PAD]])
MASK = torch.tensor([[1, 1, 1, 0, 0], [2**33, 0, 0, 0, -1]])


def after_padding(ids: Tensor, table: Tensor) -> Tensor:
    """Positions as in RoBERTa."""
    kept = ids.ne(PAD).int()
    return F.embedding((torch.cumsum(kept, 1).type_as(kept) * kept).long() + 1, table) * 2.0


def collapsed(logits: Tensor) -> Tensor:
    """The classes of a sequence without blanks and repetitions, as in CTC decoding."""
    best = logits.argmax(-1)
    before = F.pad(best, (1, 0), value=-1)[:, :-1]
    return torch.where((best != 0) & (best != before), best, -1)


def written_around(k: Tensor, new: Tensor, q: Tensor, position: Tensor) -> Tensor:
    """Attention to a cache that is a ring; the position is a single integer."""
    slot = torch.arange(8)
    k = torch.where((slot == position % 8)[:, None], new, k)
    seen = ((position - slot) % 8 <= position)[None, None, None]
    return F.scaled_dot_product_attention(q, k, k, attn_mask=seen)


POSITION = torch.tensor(2**34 + 11)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "a count": (lambda ids: (ids == PAD).sum(-1), (IDS,)),
    "a mask": (lambda ids: ids != PAD, (IDS,)),
    "an additive mask": (lambda mask: (1.0 - mask.half()) * -9.0, (MASK.clamp(0, 1),)),
    "a place": (lambda x: (x * 2.0).argmax(-1), (rand(3, 40),)),
    "places and numbers": (lambda x: (x * 2.0).max(-1), (rand(3, 40),)),
    "an order": (lambda x: (x * 2.0).argsort(-1).int(), (rand(2, 9),)),
    "signs": (lambda x: ((x > 0).to(torch.int8), (x > 0).to(torch.int16)), (rand(3, 5),)),
    "after padding": (after_padding, (IDS, rand(8, 32).half())),
    "wide numbers as floats": (lambda mask, x: mask.float() * x, (MASK, rand(2, 5))),
    "what is collapsed": (collapsed, (rand(2, 9, 5),)),
    "a ring": (written_around, (rand(1, 2, 8, 16), rand(1, 2, 1, 16), rand(1, 2, 1, 16), POSITION)),
    "single integers": (
        lambda p, x: (p % 8, (p ^ (p >> 3)) & 1023, x * (p // 3).float()),
        (POSITION, rand(3, 5)),
    ),
    "running maxima and their places": (lambda x: x.cummax(-1), (rand(3, 20),)),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, 4))
def test_no_call_is_beside_the_kernels(name: str) -> None:
    program, inputs = PROGRAMS[name]
    found = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    calls = [op for op in found.graph.ops if isinstance(op, External)]
    assert all(op.target in ("aten.reshape.default", "aten.narrow.default") for op in calls)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    expected = program(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for y, e in zip(emulate(found, *inputs), expected, strict=True):
        assert y.dtype is e.dtype
        torch.testing.assert_close(y, e, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "program",
    [lambda ids: ids.sum(-1), lambda ids: ids.cumsum(-1), lambda ids: ids.amax(-1)],
)
def test_totals_that_f32_does_not_hold(program: Callable[[Tensor], Tensor]) -> None:
    """2^40 + 1 is not an f32 number."""
    found = mi.optimize(mi.from_torch(program, IDS), OPTIONS)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    (y,) = emulate(found, IDS)
    assert torch.equal(y, program(IDS))
