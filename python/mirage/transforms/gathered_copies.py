"""Rows that products look up repeatedly, copied once by a separate kernel.

In a kernel of warpgroups that multiplies rows by index, four warps copy these rows piece by piece,
whereas rows in order are copied as boxes. If many blocks multiply the same rows, it is faster to
look them up once.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from mirage.cost.target import Target
from mirage.semantics.copy_launch import copied
from mirage.semantics.ops.kinds import Contraction, Movement, all_ops
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.positions import Gather
from mirage.semantics.ugraph import KernelGraph, Launch, Load, axis_extents
from mirage.transforms.lookups import rows_without_views
from mirage.transforms.written_rows import gathers_of

PIECE = 16
"""Bytes that one instruction of a thread copies."""
PIECE_TIME = 4.5e-4
"""The additional time, in microseconds, that a block takes for each piece of rows by index,
compared with a box. Layers of experts (1024 tokens, two of eight experts each) took 2310 µs on an
H100 with pieces, and 1774 with a copy before: 1249 steps of 1024 pieces on each multiprocessor.
"""


def with_copied_rows(graph: KernelGraph, target: Target) -> KernelGraph:
    """Return ``graph`` with copies of rows that are looked up, if this takes less time than looking
    them up in each product."""
    given, graph = graph, rows_without_views(graph)
    lookups = gathers_of(graph)
    copies: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Launch) and op.schedule.warpgroups:
            paying = [
                v
                for v in dict.fromkeys(op.operands)
                if v in lookups and _pays(op, lookups[v], target)
            ]
            for value in paying:
                if value not in copies:
                    copies[value] = Value(value.type)
                    ops.append(copied(value, copies[value]))
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
    """Return how often the products of a kernel read each row by pieces. A tile of a single row,
    such as a matrix that an index names, is copied as a box."""
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
