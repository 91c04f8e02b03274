"""Masks computed at import in which each row attends to an interval."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.torch_import.known_tensors.interval_masks import intervals_of
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from torch import nn

N = 288  # beyond what is read in any case
I, J = torch.arange(N)[:, None], torch.arange(N)
IDS = torch.cat([torch.full((n,), n) for n in (50, 130, 7, 101)])
FULL = torch.ones(N, N, dtype=torch.bool)
MASKS: dict[str, tuple[torch.Tensor, int]] = {
    "a triangle": (FULL.tril(), 0),
    "a strict triangle": (FULL.tril(-1), 0),
    "an upper triangle": (FULL.triu(3), 0),
    "a band": ((I - J).abs() < 40, 0),
    "a window": ((J <= I) & (I - J < 40), 0),
    "blocks": (I // 48 == J // 48, 0),
    "two blocks": (I // 144 == J // 144, 0),
    "blocks that do not divide": (I // 100 == J // 100, 0),
    "blocks by order": (I // 48 >= J // 48, 0),
    "blocks, causal": ((I // 48 == J // 48) & (J <= I), 0),
    "a prefix": ((J <= I) | (J < 30), 1),
    "documents": (IDS[:, None] == IDS, 2),
    "documents, causal": ((IDS[:, None] == IDS) & (J <= I), 1),
    "documents in each of two": ((IDS[:, None] == IDS).expand(2, 1, N, N).contiguous(), 2),
    "rows that see nothing": ((I // 48 == J // 48) & (I % 3 > 0), 2),
    "all": (FULL, 0),
    "the first columns": ((J < 30).expand(N, N).contiguous(), 0),
    "a row between none and all": ((I > 7) | ((I == 7) & (J < 30)), 1),
    "a row between all and none": ((I < 7) | ((I == 7) & (J < 30)), 1),
}
"""Masks, and the number of vectors of integers that are read for them."""


class Masked(nn.Module):
    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mask.dtype is torch.bool:
            return torch.where(self.mask, x, 0.0)
        return torch.exp(x + self.mask)


def check(module: Callable[..., torch.Tensor], read: int) -> None:
    columns = module.mask.shape[-1] if isinstance(module, Masked) else N
    x = torch.randn(2, 1, N if columns == N else 1, columns, dtype=torch.float64)
    program = mi.from_torch(module, x).program
    held = [p.data for p in program.parameters]
    assert len(held) == read
    assert all(p.shape[-1] == 1 and p.dtype is torch.int32 for p in held)
    (y,) = evaluate_floats(program.graph, [x.numpy(), *(p.numpy() for p in held)])
    np.testing.assert_allclose(y, module(x).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", MASKS)
def test_masks_are_compared(name: str) -> None:
    mask, read = MASKS[name]
    check(Masked(mask), read)


@pytest.mark.parametrize("first", [0, 3])
def test_masks_of_one_long_row(first: int) -> None:
    at = torch.arange(1 << 17)[None]
    check(Masked((at < 9) & (at >= first)), 0)


@pytest.mark.parametrize("name", ["a triangle", "documents", "rows that see nothing"])
def test_masks_that_are_added(name: str) -> None:
    mask, read = MASKS[name]
    added = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    check(Masked(added), read)


@pytest.mark.parametrize(("rows", "columns"), [(9, 4), (4, 9)])
def test_every_mask_of_a_few_columns(rows: int, columns: int) -> None:
    generator = np.random.default_rng(5)
    for _ in range(50):
        mask = generator.random((rows, columns)) < generator.random()
        found = intervals_of(torch.from_numpy(mask))
        seen = [np.flatnonzero(row) for row in mask]
        if any(len(s) and s[-1] - s[0] >= len(s) for s in seen):
            assert found is None
            continue
        assert found is not None
        at = np.arange(columns)
        np.testing.assert_array_equal((found.first <= at) & (at <= found.last), mask)


@pytest.mark.parametrize(
    "mask",
    [(I - J) % 2 == 0, IDS[:, None] != IDS, torch.zeros(N, N).masked_fill(I < J, -1e9)],
    ids=["every second", "other documents", "a large number"],
)
def test_other_masks_are_read_or_computed(mask: torch.Tensor) -> None:
    assert intervals_of(mask) is None


def test_documents_that_are_a_constant_are_intervals() -> None:
    class Documents(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ids", IDS, persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            at = torch.arange(N)
            seen = (self.ids[:, None] == self.ids) & (at[:, None] >= at)
            return torch.where(seen, x, 0.0)

    check(Documents(), 1)


def test_masks_that_may_change_are_read() -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", FULL.tril())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(torch.where(self.mask, x, 0.0))

    (held,) = mi.from_torch(Kept(), torch.randn(N, N)).program.parameters
    assert held.data.shape == (N, N)
    assert held.data.dtype is torch.bool
    assert DType.I1.bytes == 1
