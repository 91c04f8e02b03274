"""Programs with tensors of no elements, compared and executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.compare import verify_programs
from mirage.pipeline.commands.emulate import emulate
from mirage.verify import Kind, Verdict, VerifyOptions
from thorough import some_of

Function = Callable[[torch.Tensor], Any]
X = torch.arange(24.0).reshape(4, 6)
SAME: dict[str, tuple[Function, Function]] = {
    "nothing but an empty part": (lambda x: x[:, :0], lambda x: x[:, 6:]),
    "beside a result": (lambda x: (x[:, :0] * 2.0, x + 1.0), lambda x: (x[:, 3:3], 1.0 + x)),
    "joined with nothing": (lambda x: torch.cat([x[:, :0] * 3.0, x], 1), lambda x: x * 1.0),
    "a sum of nothing": (lambda x: x[:, :0].sum(1) + x[:, 0], lambda x: x[:, 0] * 1.0),
}
OTHER: dict[str, tuple[Function, Function]] = {
    "another shape": (lambda x: x[:, :0], lambda x: x[:0]),
    "another result beside it": (lambda x: (x[:, :0], x), lambda x: (x[:, :0], x * 2.0)),
    "elements": (lambda x: (x[:, :0], x), lambda x: (x, x)),
    "another type": (lambda x: x[:, :0], lambda x: x[:, :0].half()),
}


def verdict(first: Function, second: Function) -> Verdict:
    programs = (mi.from_torch(f, X).program for f in (first, second))
    return verify_programs(*programs, VerifyOptions(seed=1))


@pytest.mark.parametrize("name", SAME)
def test_no_elements_are_the_same(name: str) -> None:
    assert verdict(*SAME[name]).accepted


@pytest.mark.parametrize("name", OTHER)
def test_other_types_are_not(name: str) -> None:
    assert verdict(*OTHER[name]).kind is Kind.REFUTED


ATTENDED: dict[str, Callable[..., torch.Tensor]] = {
    "plain": F.scaled_dot_product_attention,
    "a mask": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.ones(4, 0, dtype=torch.bool)
    ) + q,
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True) + q,
    "logsumexp": lambda q, k, v: torch.logsumexp(k, 1) + q[:, 0],
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(ATTENDED, every=2))
def test_no_keys(name: str) -> None:
    """Attention to no keys is zero, and the logarithm of a sum of nothing is minus infinity."""
    q, k = torch.randn(2, 4, 8), torch.randn(2, 0, 8)
    found = mi.optimize(mi.from_torch(ATTENDED[name], q, k, k), executed())
    (got,) = emulate(found, q, k, k)
    torch.testing.assert_close(got, ATTENDED[name](q, k, k))
