"""Factors of products whose rows keep their offsets within lines of 16 bytes in shared memory, so
that rows at odd elements are copied ahead of a loop (``SkewedTiles.cpp``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage import _target
from mirage.cost.block_analysis import BlockAnalysis
from mirage.semantics.indexing.strides import dense
from mirage.semantics.ugraph import TensorType, Value, View

Num = Any


def is_odd(type_: TensorType) -> bool:
    """Return whether some rows of a tensor start at places where no asynchronous copy can start."""
    rows, width = type_.shape[-1:], type_.dtype.bytes
    return any(n * width % _target.ASYNC_COPY_UNIT != 0 and type_.size > n for n in rows)


def may_skew(type_: TensorType, tile: Sequence[Num]) -> Num:
    """Return where tiles of a tensor can keep the offsets of its rows: rows start at odd elements,
    but tiles at lines."""
    fits: Num = np.asarray(is_odd(type_) and type_.dtype.bytes == 2)
    for n, size, stride in zip(type_.shape, tile, dense(type_.shape), strict=True):
        within = size * stride * type_.dtype.bytes % _target.LINE_BYTES
        fits = fits & ((np.asarray(size) >= n) | (within == 0))
    return fits


def skewed_factors(block: BlockAnalysis) -> set[Value]:
    """Return the tiles of which only products read elements, and contract them along the tile's
    rows; and the factors that are their transposes."""
    found: dict[Value, set[Value]] = {}  # the factors that are made from a tile
    across: set[Value] = set()  # tiles that are also contracted across rows
    if block.launch.schedule.warpgroups:
        return set()
    for op in block.matmuls:
        for factor, contracted in zip(op.operands, (-1, -2), strict=True):
            load = block.load_of(factor)
            if load is None or load.result in block.computed_with:
                continue
            if not may_skew(load.operands[0].type, load.result.shape):
                continue
            found.setdefault(load.result, {load.result}).add(factor)
            if not _is_last(block, factor, contracted % len(factor.shape)):
                across.add(load.result)
    return {factor for tile, factors in found.items() if tile not in across for factor in factors}


def _is_last(block: BlockAnalysis, value: Value, dim: int | None) -> bool:
    """Return whether a dimension of a loaded tile or of its view is the tile's last one."""
    while isinstance(op := block.definitions[value], View):
        dim = None if dim is None else (op.source_dims() or {}).get(dim)
        (value,) = op.operands
    return dim == len(value.shape) - 1
