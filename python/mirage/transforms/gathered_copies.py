"""Rows by index that products read again and again: copied first, by a kernel of their own.

A kernel of warpgroups that multiplies looked up rows has four warps copy them piece by piece, where
rows in order come as boxes. If many blocks multiply the same rows, it is faster to look them up
once.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from mirage.cost.target import Target
from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import Contraction, Movement, Op, Value, all_ops
from mirage.semantics.positions import Gather
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Output,
    Schedule,
    TileMap,
    axis_extents,
)
from mirage.transforms.lookups import rows_without_views

PIECE = 16
"""Bytes that one instruction of a thread copies."""
PIECE_TIME = 4.5e-4
"""Microseconds that each piece of looked up rows takes a block longer than a box does. Layers of
experts (1024 tokens, two of eight experts each) took 2310 µs on an H100 with pieces, 1774 with a
copy before: 1249 steps of 1024 pieces on each multiprocessor."""
TILE_COLUMNS, TILE = 512, 8192
"""Elements of a row, and of all rows, that a block copies."""


def with_copied_rows(graph: KernelGraph, target: Target) -> KernelGraph:
    """``graph`` with copies of looked up rows where that takes less time than looking them up in
    each product."""
    given, graph = graph, rows_without_views(graph)
    lookups = {op.result: op for op in graph.ops if isinstance(op, Gather)}
    copies: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Launch) and op.schedule is not None and op.schedule.warpgroups:
            paying = [
                v
                for v in dict.fromkeys(op.operands)
                if v in lookups and _pays(op, lookups[v], target)
            ]
            for value in paying:
                if value not in copies:
                    copies[value] = Value(value.type)
                    ops.append(_copy(value, copies[value]))
            operands = tuple(copies[v] if v in paying else v for v in op.operands)
            op = replace(op, operands=operands)
        ops.append(op)
    return replace(graph, ops=tuple(ops)) if copies else given


def _pays(launch: Launch, lookup: Gather, target: Target) -> bool:
    rows = lookup.result
    size = rows.type.size * rows.dtype.bytes
    longer = size / PIECE * _times_read(launch, lookup) * PIECE_TIME / target.sms
    return longer > 2 * size / target.dram_bytes + target.launch + target.combine


def _times_read(launch: Launch, lookup: Gather) -> int:
    """How often the products of a kernel read each row by pieces. A tile of a single row, a matrix
    that an index names, comes as a box."""
    rank = len(lookup.operands[1].shape)
    pairs = zip(launch.body.params, launch.operands, strict=True)
    params = {p for p, v in pairs if v is lookup.result}
    extents = axis_extents(launch)
    inside = tuple(all_ops(launch.body.ops))
    return sum(
        prod(extents.values()) // prod(extents[axis] for axes in op.map for axis in axes)
        for op in inside
        if isinstance(op, Load)
        and op.operands[0] in params
        and prod(op.result.shape[:rank]) > 1
        and _is_factor(op.result, inside)
    )


def _is_factor(value: Value, ops: tuple[Op, ...]) -> bool:
    users = [op for op in ops if value in op.operands]
    return any(
        (isinstance(op, Contraction) and len(op.operands) == 2)
        or (isinstance(op, Movement) and _is_factor(op.result, ops))
        for op in users
    )


def _copy(rows: Value, result: Value) -> Launch:
    """Loads all rows and stores them; the load is the lookup."""
    shape = rows.shape
    padded = min(TILE_COLUMNS, 1 << (shape[-1] - 1).bit_length())
    width, height = min(padded, shape[-1]), min(max(TILE // padded, 1), shape[-2])
    parts = (*shape[:-2], ceil(shape[-2] / height), ceil(shape[-1] / width))
    names = tuple(f"d{i}" for i in range(len(parts)))
    grid = tuple(Axis(name, n) for name, n in zip(names, parts, strict=True) if n > 1)
    tile_map: TileMap = tuple(
        (name,) if n > 1 else () for name, n in zip(names, parts, strict=True)
    )
    b = Builder(in_block=True)
    param = Value(rows.type, rows.name)
    tile = b.load(param, tile_map, (*(1 for _ in shape[:-2]), height, width))
    body = BlockGraph((param,), tuple(b.ops), (Output(tile, tile_map),))
    return Launch((rows,), (result,), grid, body, Schedule(warps=4, stages=1))
