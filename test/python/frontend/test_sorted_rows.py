"""Rows that are sorted by their experts and put back are not moved, if the order has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.positions import Gather, Lookup
from thorough import some_of
from torch_programs.imported_programs import evaluate, rand

Tensor = torch.Tensor
grouped: Any = torch.ops.aten._grouped_mm.default
EXPERTS, WIDTH, INNER, TOP = 8, 16, 8, 2


def ends_of(keys: Tensor, experts: int = EXPERTS) -> Tensor:
    counts = torch.histc(keys.float(), bins=experts, min=0, max=experts - 1)
    return torch.cumsum(counts, 0, dtype=torch.int32)


def inverse(order: Tensor) -> Tensor:
    back = torch.empty_like(order)
    back[order] = torch.arange(order.size(0))
    return back


def layer(
    x: Tensor, router: Tensor, up: Tensor, down: Tensor,
    between: Callable[[Tensor], Tensor] = lambda y: y,
    back: Callable[[Tensor], Tensor] = inverse,
    ends: Callable[[Tensor], Tensor] = ends_of,
    keys: Callable[[Tensor], Tensor] = lambda keys: keys,
) -> Tensor:  # fmt: skip
    """Mixtures of experts, sorted by experts."""
    weights, chosen = torch.topk(torch.softmax(x @ router, -1), TOP, -1)
    ordered, order = torch.sort(keys(chosen.reshape(-1)))
    rows, of = x[order // TOP].bfloat16(), ends(ordered)
    gate, other = grouped(rows, up, of).chunk(2, -1)
    y = grouped(between(F.silu(gate) * other), down, of)
    y = (y * weights.reshape(-1)[order][:, None])[back(order)]
    return y.view(x.shape[0], TOP, WIDTH).sum(1)


def inputs(tokens: int, experts: int = EXPERTS) -> tuple[Tensor, ...]:
    x, router = rand(tokens, WIDTH).float(), rand(WIDTH, experts).float()
    up = rand(experts, WIDTH, 2 * INNER).bfloat16()
    return x, router, up, rand(experts, INNER, WIDTH).bfloat16()


def sorts(program: Any) -> int:
    """Return the number of tensors with one element for each pair of rows: they rank the rows."""
    pairs = {(n, n) for n in (TOP, 3 * TOP, 5 * TOP)}
    return sum(v.shape in pairs for op in program.graph.ops for v in op.results)


def compared(function: Callable[..., Tensor], tokens: int) -> Any:
    given = inputs(tokens)
    program = mi.from_torch(function, *given)
    (got,) = evaluate(program, list(given))
    np.testing.assert_allclose(got, function(*given).double(), rtol=3e-2, atol=3e-1)
    return program


@pytest.mark.parametrize("tokens", [1, 3, 5])
def test_nothing_is_sorted(tokens: int) -> None:
    """With fewer rows than experts, and with more."""
    program = compared(layer, tokens)
    assert not sorts(program)
    looked_up = [op.operands[0].shape for op in program.graph.ops if isinstance(op, Gather)]
    assert all(len(shape) == 3 for shape in looked_up)  # weights, but no rows
    assert len(looked_up) == (2 if tokens * TOP < EXPERTS else 0)


def test_an_expert_without_rows_may_hold_anything() -> None:
    x, router, up, down = inputs(1)
    unused = torch.topk(x @ router, EXPERTS, -1).indices[0, -1]
    program = mi.from_torch(layer, x, router, up, down)
    (want,) = evaluate(program, [x, router, up, down])
    up[unused] = float("nan")
    np.testing.assert_array_equal(evaluate(program, [x, router, up, down])[0], want)


def not_ascending(keys: Tensor) -> Tensor:
    return torch.where(keys == 0, keys - 1, keys)


TWINS: dict[str, Callable[..., Tensor]] = {
    "another order than before": lambda *a: layer(*a, back=lambda order: order),
    "one row later": lambda *a: layer(*a, back=lambda order: inverse(order).roll(1)),
    "rows that depend on others": lambda *a: layer(*a, between=lambda y: y.cumsum(0)),
    "rows that change places": lambda *a: layer(*a, between=lambda y: y.flip(0)),
    "a factor for each place": lambda *a: layer(
        *a, between=lambda y: y * torch.arange(1, 7, dtype=y.dtype)[:, None]
    ),
    "keys that are no experts": lambda *a: layer(*a, keys=not_ascending),
}


@pytest.mark.parametrize("name", some_of(TWINS, every=2))
def test_where_the_order_has_an_effect_rows_are_sorted(name: str) -> None:
    if name == "keys that are no experts":  # PyTorch's product of groups then has other rows
        assert sorts(mi.from_torch(TWINS[name], *inputs(3)))
        return
    assert sorts(compared(TWINS[name], 3))


def test_many_rows_are_laid_into_blocks() -> None:
    """Products of groups of many rows need sorted rows."""
    given = inputs(100)
    program = mi.from_torch(layer, *given)
    rows = [op for op in program.graph.ops if isinstance(op, Lookup) and op.operands]
    assert any(op.operands[0].shape == (100, WIDTH) for op in rows)
