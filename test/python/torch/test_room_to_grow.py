"""Tensors with memory for further rows."""

from __future__ import annotations

import pytest
import torch
from mirage.torch.room_to_grow import LEAST, as_table, joined, room_for

Tensor = torch.Tensor


def test_there_is_room_for_at_most_as_much_again() -> None:
    assert [room_for(n) for n in (1, 64, 65, 128, 129)] == [LEAST, 64, 128, 128, 256]


def test_what_is_joined_is_what_pytorch_joins() -> None:
    x = torch.randn(2, 3, 70, 4)
    y = torch.randn(2, 1, 3, 4).transpose(1, 2)
    for dim in (2, -2):
        got, want = joined([x, y], dim), torch.cat([x, y], dim)
        assert torch.equal(got, want)
        assert got.stride() == want.stride()
        table = as_table(got)
        assert table is not None
        assert table.shape == (2 * 3 * 128, 4)
        assert torch.equal(table[: 2 * 3 * 71].view(2, 3, 71, 4), want)


@pytest.mark.parametrize(
    ("x", "y", "dim"),
    [
        (torch.ones(2, 3, 4), torch.ones(2, 3, 4), -1),
        (torch.ones(2, 3, 4).transpose(0, 1), torch.ones(3, 2, 4), 1),
        (torch.ones(2, 3, 4), torch.ones(2, 3, 4, dtype=torch.float64), 1),
        (torch.ones(4), torch.ones(4), 0),
        (torch.ones(2, 3, 4, requires_grad=True), torch.ones(2, 3, 4), 1),
    ],
    ids=["other dimension", "not dense", "types", "no rows", "gradients"],
)
def test_anything_else_is_left_to_pytorch(x: Tensor, y: Tensor, dim: int) -> None:
    got, want = joined([x, y], dim), torch.cat([x, y], dim)
    assert torch.equal(got, want)
    assert got.stride() == want.stride()
    assert got.dtype is want.dtype
    assert got.requires_grad == want.requires_grad
    assert as_table(torch.cat([x, y], dim).contiguous().view(1, -1, 1)) is None
