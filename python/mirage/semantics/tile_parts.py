"""The parts of tiles that a part of a launch's results needs.

A kernel that adds a row to each tile of 4 x 512 elements may be asked for 8 of the 512 columns; the
kernels before it then need not compute the others. This can be determined for launches without
loops, whose ops say what they need (:meth:`mirage.semantics.ops.op.Op.needs`). Blocks with loops
compute whole tiles.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mirage.semantics.indexing.indices import Indices, Region, distinct, simplify, union, whole
from mirage.semantics.ops.kinds import Scan, Source
from mirage.semantics.ugraph import Launch, Structure, Value

TileParts = Mapping[Value, Region]
"""The region of each tile of a launch that is computed; nothing of the tiles that are not named."""


def tile_parts(launch: Launch, regions: Mapping[Value, Region]) -> TileParts | None:
    """Return the parts of tiles that the wanted regions of a launch's results need; None if all
    tiles are computed as a whole."""
    if any(isinstance(op, Structure | Scan) for op in launch.body.ops):
        return None
    parts: dict[Value, Region] = {}
    for result, output in zip(launch.results, launch.body.outputs, strict=True):
        if result in regions:
            each = zip(regions[result], output.value.shape, strict=True)
            _want(parts, output.value, tuple(_within(r, tile) for r, tile in each))
    if all(r is None for region in parts.values() for r in region):
        return None
    for op in reversed(launch.body.ops):
        if op.result in parts and not isinstance(op, Source):
            for value, region in zip(op.operands, op.needs(parts[op.result]), strict=True):
                _want(parts, value, region)
    return parts


def part_of(parts: TileParts | None, tile: Value) -> Region:
    """Return the part of a tile that is computed."""
    return whole(len(tile.shape)) if parts is None else parts[tile]


def _within(wanted: Indices, tile: int) -> Indices:
    """Return the places, within their tiles, of the wanted indices of a dimension."""
    return None if wanted is None else simplify(distinct(np.sort(wanted % tile)), tile)


def _want(parts: dict[Value, Region], tile: Value, region: Region) -> None:
    known = parts.get(tile)
    parts[tile] = region if known is None else union(known, region, tile.shape)
