"""A tensor repeated along axes that it does not have, as a kernel of its own."""

from __future__ import annotations

from math import ceil

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

TILE = 1024
"""The elements that a block copies."""


def repeated(
    tensor: Value, axes: tuple[str, ...], whole: tuple[str, ...], sizes: dict[str, int]
) -> Launch:
    """Copy ``tensor``, which has a dimension for each of ``axes``, once for each element of the
    axes of ``whole`` that it lacks. The result has a dimension for each axis of ``whole``.
    """
    last = whole[-1]
    tile = dict.fromkeys(whole, 1) | {last: min(TILE, sizes[last])}
    grid = tuple(Axis(a, ceil(sizes[a] / tile[a])) for a in whole if sizes[a] > tile[a])
    names = {axis.name for axis in grid}

    def tiles(axes: tuple[str, ...]) -> TileMap:
        return tuple((a,) if a in names else () for a in axes)

    b = Builder(in_block=True)
    param = Value(tensor.type, tensor.name)
    x = b.load(param, tiles(axes), tuple(tile[a] for a in axes))
    x = b.reshape(x, tuple(tile[a] if a in axes else 1 for a in whole))
    stored = tuple(tile[a] for a in whole)
    if x.shape != stored:
        x = b.broadcast(x, stored)
    result = Value(TensorType(tuple(sizes[a] for a in whole), tensor.dtype), tensor.name)
    output = Output(x, tiles(whole))
    body = BlockGraph((param,), tuple(b.ops), (output,))
    return Launch((tensor,), (result,), grid, body, Schedule(warps=4, stages=1))
