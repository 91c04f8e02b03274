"""Tensors with room in memory for further rows.

A cache that grows has another length in each call, and each length other memory: the rows of its
second head start where those of the first one end. A kernel for all lengths reads such a tensor as
a table of rows with a known maximal number. So a tensor that grows is followed in memory by as much
room as that table needs; for all other readers it is the same tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

LEAST = 64
"""The smallest length for which room is made."""
LEAST_RANK = 2
"""The fewest dimensions of a tensor that grows: its rows, and the elements of a row."""


def room_for(length: int) -> int:
    """Return the length for which room is made: a power of two, so that a kernel serves many
    lengths, and at most half of the room is free."""
    return max(LEAST, 1 << max(length - 1, 0).bit_length())


def joined(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Return ``torch.cat`` of tensors, followed by room in memory if the last dimension but one
    grows."""
    like = tensors[0]
    rank = like.dim()
    if rank < LEAST_RANK or dim % rank != rank - 2 or not _is_dense(tensors):
        return torch.cat(list(tensors), dim)
    length = sum(x.shape[-2] for x in tensors)
    *outer, _, width = like.shape
    room = like.new_empty(prod(outer) * room_for(length) * width)
    found = room[: prod(outer) * length * width].view(*outer, length, width)
    return torch.cat(list(tensors), dim, out=found)


def _is_dense(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether the result of joining tensors is certainly dense, of their type, and without
    gradients."""
    like = tensors[0]
    return like.is_contiguous() and all(
        x.dtype is like.dtype
        and x.dim() == like.dim()
        and not (x.requires_grad and torch.is_grad_enabled())
        for x in tensors
    )


def as_table(x: torch.Tensor) -> torch.Tensor | None:
    """Return the rows of a tensor and the room after it as one table; None if there is too
    little."""
    *outer, length, width = x.shape
    rows = prod(outer) * room_for(length)
    behind = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    if not x.is_contiguous() or behind < rows * width:
        return None
    return x.as_strided((rows, width), (width, 1))
