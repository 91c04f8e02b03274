"""Contiguous elements of tiles in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def contiguous_run(tile: Sequence[int], tensor: Sequence[int]) -> int:
    """Return the number of contiguous elements of a tile's rows in device memory."""
    run = 1
    for part, size in zip(reversed(tile), reversed(tensor), strict=True):
        run *= min(part, size)
        if part < size:
            break
    return run


def run_gap(tile: Sequence[int], tensor: Sequence[int]) -> int:
    """Return the number of elements from the start of one run of a tile to the next; 0 if the tile
    is one run."""
    in_run = True
    for dim in reversed(range(len(tile))):
        if not in_run and tile[dim] > 1:
            return prod(tensor[dim + 1 :])
        in_run = in_run and tile[dim] >= tensor[dim]
    return 0
