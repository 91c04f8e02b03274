"""Elements of tiles beyond the end of a tensor that do not affect what a kernel stores.

The rows of a last tile that lie beyond the end of the result are dropped when the tile is stored.
If each stored row is computed from the same row of a tile, it does not matter what the tile has in
the rows beyond. Which part of a tile is needed is followed from the stores back to the loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mirage.semantics.bounds.overhanging_tiles import Beyond, Edge
from mirage.semantics.indexing.indices import Region, aligned, union
from mirage.semantics.ops.op import Op
from mirage.semantics.ugraph import Launch, Scan, Structure, Value, axis_extents


def dropped(launch: Launch, edges: Mapping[Value, Beyond]) -> dict[Value, Beyond]:
    """Return the ``edges`` of each value beyond which its elements affect no stored element."""
    every = {e for beyond in edges.values() for e in beyond}
    found: dict[Value, set[Edge]] = {v: set() for v in edges}
    for cut in {(e.axes, e.tile, e.extent) for e in every}:
        inner = _rows_of_last(launch, *cut)
        needed = {} if inner is None else _needed(launch, *cut, inner)
        for value, beyond in edges.items():
            region = needed.get(value)
            for e in beyond:
                if region is None or inner is None or (e.axes, e.tile, e.extent) != cut:
                    continue
                rows = region[e.dim] if value.shape[e.dim] == e.tile else None
                if rows is not None and np.all(rows < inner):
                    found[value].add(e)
    return {v: frozenset(es) for v, es in found.items()}


def _rows_of_last(launch: Launch, axes: tuple[str, ...], tile: int, extent: int) -> int | None:
    """Return how many rows the last part has inside the tensor; None unless it is the only part
    that overhangs."""
    extents = axis_extents(launch)
    parts = int(np.prod([extents[axis] for axis in axes], dtype=int))
    inner = extent - (parts - 1) * tile
    return inner if 0 < inner < tile else None


def _needed(
    launch: Launch, axes: tuple[str, ...], tile: int, extent: int, inner: int
) -> dict[Value, Region]:
    """Return the region of each value that stored elements depend on, in the blocks that have the
    last part."""
    needed: dict[Value, Region] = {}
    for output, result in zip(launch.body.outputs, launch.results, strict=True):
        region: Region = tuple(
            np.arange(inner) if (cut, t, size) == (axes, tile, extent) else None
            for cut, t, size in zip(output.map, output.value.shape, result.shape, strict=True)
        )
        _need(needed, output.value, region)
    _follow(launch.body.ops, needed)
    return needed


def _need(needed: dict[Value, Region], value: Value, region: Region) -> None:
    known = needed.get(value)
    needed[value] = region if known is None else union(known, region, value.shape)


def _follow(ops: Iterable[Op], needed: dict[Value, Region]) -> None:
    """Add what ``ops`` need, the last one first. A value that nothing reads is needed as a
    whole."""
    for op in reversed(tuple(ops)):
        regions = [needed.get(v, (None,) * len(v.shape)) for v in op.results]
        if isinstance(op, Structure):
            of = dict(zip(op.results, regions, strict=True))
            for result, value in op.carries:
                _need(needed, value, aligned(of[result], value.shape))
            for value in set(op.ends) - {v for _, v in op.carries}:
                _need(needed, value, (None,) * len(value.shape))
            _follow(op.inside, needed)
        else:
            # a maximum over steps is taken element by element
            parts = regions if isinstance(op, Scan) else op.needs(regions[0])
            for value, part in zip(op.operands, parts, strict=True):
                _need(needed, value, part)
