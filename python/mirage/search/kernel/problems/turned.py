"""A tensor copied with its last two dimensions exchanged, as a kernel of its own."""

from __future__ import annotations

from math import ceil

from mirage.search.kernel.problems.aligned import LINE_BYTES, aligned_type, power_of_two
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

TILE = 64
"""The rows and the columns that a block copies."""


def turned_copy(tensor: Value) -> Launch:
    """Copy a tensor's columns into rows, and extend the rows with zeros, at least to a whole line,
    so that boxes can be copied from them."""
    *batch, rows, columns = tensor.shape
    longer = max(rows, LINE_BYTES // tensor.dtype.bytes)
    result = Value(aligned_type(TensorType((*batch, columns, longer), tensor.dtype)), tensor.name)
    tile = min(TILE, power_of_two(longer)), min(TILE, power_of_two(columns))
    parts = *batch, ceil(result.shape[-1] / tile[0]), ceil(columns / tile[1])
    names = tuple(f"d{i}" for i in range(len(parts)))
    grid = tuple(Axis(name, n) for name, n in zip(names, parts, strict=True) if n > 1)
    cuts: TileMap = tuple((name,) if n > 1 else () for name, n in zip(names, parts, strict=True))
    b = Builder(in_block=True)
    param = Value(tensor.type, tensor.name)
    x = b.load(param, cuts, (*(1 for _ in batch), *tile))
    turned = b.transpose(x, (*range(len(batch)), len(batch) + 1, len(batch)))
    output = Output(turned, (*cuts[:-2], cuts[-1], cuts[-2]))
    body = BlockGraph((param,), tuple(b.ops), (output,))
    return Launch((tensor,), (result,), grid, body, Schedule(warps=4, stages=1))
