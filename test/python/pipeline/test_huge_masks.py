"""Masks with huge finite numbers, which models write in place of minus infinity: rows that they
mask completely have numbers, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import Launch
from mirage.transforms.online_max import online_max
from thorough import some_of

Tensor = torch.Tensor
Program = Callable[..., Tensor]
BF16, F32 = torch.bfloat16, torch.float32
KEYS = 40


def rand(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def lowest(*shape: int, dtype: torch.dtype) -> Tensor:
    """A mask with rows that are masked completely, and one that is masked partly."""
    mask = torch.zeros(shape, dtype=dtype)
    mask[..., 0:3, :] = mask[..., 5, 4:] = torch.finfo(dtype).min
    return mask


def chosen(s: Tensor, left: Tensor) -> Tensor:
    return torch.softmax(s.masked_fill(left[:, None] == 0, torch.finfo(s.dtype).min), -1)


def multiplied(s: Tensor, left: Tensor) -> Tensor:
    return torch.softmax(s + (1.0 - left[:, None].to(s.dtype)) * torch.finfo(s.dtype).min, -1)


def eager(q: Tensor, k: Tensor, v: Tensor, left: Tensor) -> Tensor:
    """As in one of Transformers' forms of attention."""
    i = torch.arange(KEYS)
    keep = (i[:, None] >= i) & left[:, None, :].bool()
    none, low = torch.zeros((), dtype=q.dtype), torch.full((), torch.finfo(q.dtype).min)
    scores = q @ k.transpose(-1, -2) * 0.25 + torch.where(keep, none, low.to(q.dtype))
    return scores.float().softmax(-1).to(q.dtype) @ v


def before_the_scale(q: Tensor, k: Tensor, v: Tensor, left: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(left[:, None, :] == 0, -3e10)
    return torch.softmax(scores * 0.3, -1) @ v


def given(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask)


def qkv(queries: int, keys: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(rand(2, n, 16, dtype=dtype) for n in (queries, keys, keys))


LEFT = (torch.arange(KEYS) >= torch.tensor([[5], [KEYS]])).long()
SCORES = rand(2, 8, KEYS, dtype=F32)
CASES: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "softmax of what is given": (
        lambda x: torch.softmax(x, -1), (lowest(2, 8, KEYS, dtype=F32) + SCORES,)
    ),
    "chosen": (chosen, (SCORES, LEFT)),
    "multiplied": (multiplied, (SCORES, LEFT.bool())),
    "eager, f32": (eager, (*qkv(KEYS, KEYS, F32), LEFT)),
    "eager, bf16": (eager, (*qkv(KEYS, KEYS, BF16), LEFT)),
    "before the scale": (before_the_scale, (*qkv(KEYS, KEYS, F32), LEFT)),
    "a given mask": (given, (*qkv(8, KEYS, BF16), lowest(2, 8, KEYS, dtype=BF16))),
    "keys in several blocks": (
        given,
        (*qkv(1, 700, BF16), lowest(2, 8, 700, dtype=BF16)[:, [0, 5]].reshape(4, 1, 700)[:2]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(CASES, 4))
def test_rows_of_which_nothing_is_left_have_numbers(name: str) -> None:
    program, inputs = CASES[name]
    found = mi.optimize(mi.from_torch(program, *inputs), executed())
    kernels = [
        op for step in found.steps if step.graph is not None for op in step.graph.ops
        if isinstance(op, Launch)
    ]  # fmt: skip
    assert len(kernels) == 1
    (got,) = emulate(found, *inputs)
    expected = program(*inputs)
    tolerance = 3e-2 if expected.dtype is BF16 else 1e-5
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def test_kernels_that_have_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_max, "LOWEST", -1e30)
    program, inputs = CASES["softmax of what is given"]
    imported = mi.from_torch(program, torch.zeros_like(inputs[0]))
    found = mi.optimize(imported, executed(compile=False, use_cache=False))
    assert found.verdicts
    assert not any(c.kept for c in found.verdicts)
