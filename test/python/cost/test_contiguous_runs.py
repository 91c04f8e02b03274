"""Contiguous elements of tiles in device memory, and sectors that a block writes in pieces."""

from __future__ import annotations

import pytest
from mirage.cost.accountant import Accountant
from mirage.cost.contiguous_runs import contiguous_run, run_gap


@pytest.mark.parametrize(
    ("tile", "tensor", "run", "gap"),
    [
        ((4, 8), (16, 32), 8, 32),
        ((4, 32), (16, 32), 128, 0),
        ((4, 1, 32), (16, 8, 32), 32, 256),
        ((64, 16, 1), (256, 512, 8), 1, 8),
        ((64, 1, 1), (256, 512, 8), 1, 4096),
        ((1, 1, 8), (16, 8, 32), 8, 0),
    ],
)
def test_runs(tile: tuple[int, ...], tensor: tuple[int, ...], run: int, gap: int) -> None:
    assert contiguous_run(tile, tensor) == run
    assert run_gap(tile, tensor) == gap


@pytest.mark.parametrize(
    ("run", "gap", "writes"), [(32.0, 0.0, 1), (8.0, 0.0, 4), (2.0, 16.0, 8), (2.0, 8192.0, 16)]
)
def test_pieces_of_a_sector_that_a_block_has_are_one_write(
    run: float, gap: float, writes: int
) -> None:
    account = Accountant()
    account.store(1024.0, run, gap)
    assert account.features.pieces == 1024.0 * (writes - 1)
