"""The tiles that the tensor memory accelerator copies as boxes (``Boxes.h`` and ``ShiftedBoxes.h``
in the compiler)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mirage import _target
from mirage.semantics.ugraph import TensorType

Num = Any


def is_box(tensor: TensorType, tile: Sequence[int]) -> bool:
    """Return whether the tensor memory accelerator copies a tile of a tensor."""
    return fits_box(tensor, tile) and starts_anywhere(tensor)


def starts_anywhere(tensor: TensorType) -> bool:
    """Return whether boxes can start at all of a tensor's rows."""
    return tensor.shape[-1] * tensor.dtype.bytes % _target.BOX_ROW_UNIT == 0


def fits_box(tensor: TensorType, tile: Sequence[int]) -> bool:
    """Return whether a tile is small enough for a box, and its rows wide enough."""
    width, rank = tensor.dtype.bytes, len(tensor.shape)
    return (
        _target.MIN_BOX_RANK <= rank <= _target.MAX_BOX_RANK
        and tile[-1] * width % _target.BOX_TILE_UNIT == 0
        and prod(tile[:-1]) <= _target.MAX_BOX_ROWS
    )


def joined_dims(tensor: TensorType) -> int:
    """Return how many of the last dimensions of a dense tensor make up the rows at whose starts a
    box can start; 0 if none do but all of them."""
    row = tensor.dtype.bytes
    for joined, size in enumerate(reversed(tensor.shape[1:]), start=1):
        row *= size
        if row % _target.BOX_ROW_UNIT == 0:
            return joined
    return 0


def shifted_steps(extent: int, tile: Num, width: int) -> Num:
    """Return the most steps in tiles of ``tile`` that a loop over ``extent`` elements of ``width``
    bytes takes if it begins at the multiple of 16 bytes before its first element."""
    return np.ceil((extent + _target.BOX_ROW_UNIT // width - 1) / tile)
