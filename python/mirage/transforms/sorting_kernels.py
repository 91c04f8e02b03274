"""Kernels that sort the elements of lines: each block holds one line or several."""

from __future__ import annotations

from math import ceil

from mirage.semantics.argsort import Argsort, TileArgsort
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import BlockGraph, Cast, Launch, Load, Op, Output, Schedule
from mirage.transforms.integer_reductions import Cut, grid_of, padded

LONGEST = 4096
"""The most elements of a line that one block sorts."""
TILE, COLUMNS = 512, 4
"""The number of elements of a tile of several lines, and the number of its lines that are
neighbours in memory."""
EACH, MOST_WARPS = 4, 32
"""The number of elements per thread, if there are enough warps, and the number of warps."""


def sorting(op: Argsort) -> list[Launch]:
    """Return the launch that computes the places of elements in order."""
    (x,), dim = op.operands, op.dim
    sizes = [1] * len(x.shape)
    sizes[dim] = x.shape[dim]
    wide = [d for d, n in enumerate(x.shape) if n > 1 and d != dim]
    if wide:
        beside = COLUMNS if wide[-1] > dim else 1
        lines = max(beside, TILE // padded(x.shape[dim]))
        sizes[wide[-1]] = min(x.shape[wide[-1]], lines, LONGEST // padded(x.shape[dim]))
    cuts = [Cut(n, t, parts=ceil(n / t)) for n, t in zip(x.shape, sizes, strict=True)]
    grid, where = grid_of(cuts)
    shape = tuple(cut.tile for cut in cuts)
    param = Value(x.type, x.name)
    held = DType.I64 if x.dtype.is_integer else x.dtype
    ops: list[Op] = [Load((param,), (Value(TensorType(shape, held)),), where)]
    if held.is_half:
        ops.append(Cast((ops[-1].result,), (Value(TensorType(shape, DType.F32)),)))
    places = Value(TensorType(shape, DType.I64))
    ops.append(TileArgsort((ops[-1].result,), (places,), dim, op.descending))
    body = BlockGraph((param,), tuple(ops), (Output(places, where),))
    elements = padded(shape[dim]) * max(
        (padded(n) for d, n in enumerate(shape) if d != dim), default=1
    )
    warps = min(MOST_WARPS, max(4, elements // (32 * EACH)))
    return [Launch((x,), op.results, grid, body, Schedule(warps=warps, stages=1))]
