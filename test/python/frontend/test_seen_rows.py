"""Rows of attention that attend to nothing: they are zero, and it may be known that there are
none."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.scalar import BinaryFn
from torch_programs.imported_programs import check, rand

Tensor = torch.Tensor
attention = F.scaled_dot_product_attention


def triangle(n: int) -> tuple[Tensor, Tensor]:
    i = torch.arange(n)
    return i[:, None], i[None]


def causal(n: int) -> Tensor:
    row, col = triangle(n)
    return col <= row


def strictly_before(n: int) -> Tensor:
    row, col = triangle(n)
    return col < row


def window(n: int) -> Tensor:
    row, col = triangle(n)
    return (col <= row) & (row - col < 5)


def from_below(n: int) -> Tensor:
    row, col = triangle(n)
    return col >= row


def in_tenths(n: int) -> Tensor:
    row, col = triangle(n)
    return (row // 10 == col // 10)[None, None].expand(2, 1, n, n)


FULL: dict[str, Callable[[int], Tensor]] = {
    "causal": causal, "window": window, "from below": from_below, "in tenths": in_tenths,
    "all": lambda n: torch.ones(n, n, dtype=torch.bool),
}  # fmt: skip


def keeps(program: Callable[..., Tensor], *inputs: Tensor) -> bool:
    graph = mi.from_torch(program, *inputs).graph
    return any(op.function is BinaryFn.KEEP for op in graph.ops)


@pytest.mark.parametrize("n", [24, 300])  # the mask is folded, or made of positions
@pytest.mark.parametrize("name", FULL)
def test_where_each_row_sees_something(name: str, n: int) -> None:
    mask = FULL[name]
    assert not keeps(lambda q: attention(q, q, q, mask(n)), rand(2, 1, n, 8))


@pytest.mark.parametrize("n", [24, 300])
def test_the_first_row_sees_nothing_before_it(n: int) -> None:
    q = rand(2, 1, n, 8)

    def program(q: Tensor) -> Tensor:
        return attention(q, q, q, strictly_before(n))

    assert keeps(program, q)
    assert not program(q)[:, :, 0].any()
    check(program, q)


@pytest.mark.parametrize("n", [24, 300])
def test_each_token_is_in_its_own_document(n: int) -> None:
    def program(q: Tensor, ids: Tensor) -> Tensor:
        row, col = triangle(n)
        return attention(q, q, q, (ids[:, None] == ids) & (col <= row))

    assert not keeps(program, rand(1, 2, n, 8), torch.arange(n) // 7)


def test_masks_that_are_given() -> None:
    q, k = rand(2, 4, 5, 8), rand(2, 2, 7, 8)
    mask = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) > 0.7
    mask[0, 0, 3] = mask[1] = False
    for m in (mask, mask[0, 0], mask[:, :, :1], torch.zeros(7, dtype=torch.bool)[None]):
        check(lambda q, k, m: attention(q, k, k, m, enable_gqa=True), q, k, m)
    lengths = torch.tensor([0, 3])
    check(
        lambda q, k, n: attention(
            q, k, k, torch.arange(7) < n[:, None, None, None], enable_gqa=True
        ),
        q, k, lengths,
    )  # fmt: skip


def padded(x: Tensor, seen: Tensor) -> Tensor:
    """Two layers of a batch that is padded on the left."""
    row, col = triangle(x.shape[-2])
    mask = (col <= row) & seen[:, None, None]
    for _ in range(2):
        x = x + attention(x, x, x, mask)
    return x


def test_padding_reaches_no_token_of_another_layer() -> None:
    x = rand(3, 2, 16, 16).float()
    seen = torch.arange(16)[None] >= torch.tensor([0, 5, 9])[:, None]
    assert padded(x, seen).isfinite().all()
    options = executed(budget=60.0, use_cache=False)
    optimized = mi.optimize(mi.from_torch(padded, x, seen), options)
    (got,) = emulate(optimized, x, seen)
    torch.testing.assert_close(got, padded(x, seen), rtol=2e-3, atol=2e-3)
