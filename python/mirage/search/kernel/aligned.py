"""A tensor copied into rows that start where the tensor memory accelerator can begin: a kernel of
its own."""

from __future__ import annotations

from math import ceil, prod

from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    TileMap,
    Value,
)

ROW_BYTES = 16
"""Rows of tensors that are copied by boxes start at multiples of this."""
TILE_COLUMNS = 512
TILE = 4096
"""Elements that a block copies."""


def is_aligned(type_: TensorType) -> bool:
    """Whether all rows start at multiples of ``ROW_BYTES``."""
    return len(type_.shape) > 0 and type_.shape[-1] * type_.dtype.bytes % ROW_BYTES == 0


def may_align(type_: TensorType) -> bool:
    """Whether a copy with longer rows is of use: there are several, and tiles of them."""
    columns = type_.shape[-1] if type_.shape else 0
    return not is_aligned(type_) and columns >= ROW_BYTES and type_.size > columns


def aligned_type(type_: TensorType) -> TensorType:
    """The type with its rows made longer, as little as it takes."""
    unit = ROW_BYTES // type_.dtype.bytes
    *leading, columns = type_.shape
    return TensorType((*leading, ceil(columns / unit) * unit), type_.dtype)


def aligned_copy(tensor: Value, result: Value) -> Launch:
    """Copies ``tensor`` into ``result``, whose rows are longer: what is loaded beyond the end of a
    row is zero, so that their ends are zeros."""
    *leading, columns = tensor.shape
    width = min(TILE_COLUMNS, 1 << (columns.bit_length() - 1))
    rows = leading[-1]
    height = min(max(1, TILE // width), 1 << (rows.bit_length() - 1))
    tile = (*(1 for _ in leading[:-1]), height, width)
    names = tuple(f"d{i}" for i in range(len(tile)))
    parts = tuple(ceil(n / t) for n, t in zip(result.shape, tile, strict=True))
    grid = tuple(Axis(name, n) for name, n in zip(names, parts, strict=True) if n > 1)
    maps: TileMap = tuple((name,) if n > 1 else () for name, n in zip(names, parts, strict=True))
    b = Builder(in_block=True)
    param = Value(tensor.type, tensor.name)
    x = b.load(param, maps, tile)
    body = BlockGraph((param,), tuple(b.ops), (Output(x, maps),))
    warps = 4 if prod(tile) >= TILE else 1
    return Launch((tensor,), (result,), grid, body, Schedule(warps=warps, stages=1))
