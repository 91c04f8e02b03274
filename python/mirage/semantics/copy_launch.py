"""A kernel that copies tensors tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    Launch,
    Output,
    Schedule,
    TileMap,
    Value,
)

COLUMNS, TILE = 512, 8192
"""The most elements along a dimension, and of all rows together, that a block copies."""
BLOCKS, LEAST = 256, 512
"""The number of blocks that a copy should have, and the fewest elements of each block."""
WARPS = 4


def copy_launch(
    pairs: Sequence[tuple[Value, Value]],
    parts: tuple[int, ...],
    tiles: Sequence[tuple[int, ...]],
    warps: int,
) -> Launch:
    """Return a launch that copies the first tensor of each pair to the second.

    ``parts`` is the number of blocks along each dimension, which all tensors share; each block
    copies one tile of every tensor. Tiles may extend beyond a source: what is loaded there is zero,
    and it is stored where the second tensor is longer.
    """
    names = tuple(f"d{i}" for i in range(len(parts)))
    grid = tuple(Axis(name, n) for name, n in zip(names, parts, strict=True) if n > 1)
    tile_map: TileMap = tuple(
        (name,) if n > 1 else () for name, n in zip(names, parts, strict=True)
    )
    b = Builder(in_block=True)
    params = tuple(Value(source.type, source.name) for source, _ in pairs)
    outputs = tuple(
        Output(b.load(param, tile_map, tile), tile_map)
        for param, tile in zip(params, tiles, strict=True)
    )
    body = BlockGraph(params, tuple(b.ops), outputs)
    sources, results = zip(*pairs, strict=True)
    return Launch(sources, results, grid, body, Schedule(warps=warps, stages=1))


def copied(source: Value, result: Value) -> Launch:
    """Return a launch that copies a tensor, tile by tile of at most ``TILE`` elements; a small
    tensor has smaller tiles, so that there are many blocks."""
    shape = source.shape
    left = min(TILE, max(1 << (source.type.size // BLOCKS).bit_length(), LEAST))
    tile = [1] * len(shape)
    for dim in range(len(shape))[:-3:-1]:
        tile[dim] = min(shape[dim], left, COLUMNS)
        left //= 1 << (tile[dim] - 1).bit_length()
    parts = tuple(ceil(n / t) for n, t in zip(shape, tile, strict=True))
    return copy_launch([(source, result)], parts, [tuple(tile)], WARPS)
