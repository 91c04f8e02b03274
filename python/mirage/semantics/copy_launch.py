"""A kernel that copies tensors tile by tile."""

from __future__ import annotations

from collections.abc import Sequence

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
