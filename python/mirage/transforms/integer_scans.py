"""Blocks that compute running sums, maxima and products of integers.

A block scans whole rows if it can hold them. A longer row is cut into pieces: one kernel finds the
totals of the pieces, these are scanned, and another kernel scans each piece and combines it with
the total of all pieces before it (G. E. Blelloch, Prefix sums and their applications, 1990).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from mirage.semantics.integer_formula import LOAD, Formula, Step
from mirage.semantics.integer_totals import IntegerCumulate
from mirage.semantics.integers import MapIntegers
from mirage.semantics.ops.cumulation import COMBINED, NOTHING
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.scalar import CumulateFn, DType, ReduceFn
from mirage.semantics.ugraph import BlockGraph, Cumulate, Launch, Load, Mask, Output, Schedule
from mirage.transforms.integer_reductions import Cut, grid_of, padded, reduction

LONGEST, PIECE = 4096, 1024
"""The most elements of a row that one block scans, and those of a piece of a longer row."""
COLUMNS = 4
"""The columns of a tile that is scanned along its rows: neighbours in memory that are read at
once."""
TILE = 1024
"""The elements of a tile of several rows."""
WARPS, MORE_WARPS = 4, 8
"""The warps of a block, and those of one whose threads would have more than 8 elements each."""
_REDUCED = {CumulateFn.SUM: ReduceFn.SUM, CumulateFn.MAX: ReduceFn.MAX}


def has_scan(op: IntegerCumulate) -> bool:
    """Return whether there are kernels for a scan: products require rows that a block holds."""
    return op.fn in _REDUCED or op.result.shape[op.dim] <= _longest(op.result, op.dim)


def scanning(op: IntegerCumulate) -> list[Launch]:
    """Return the launches of a scan; the last one has the result."""
    x, dim = op.operands[0], op.dim
    size, longest = x.shape[dim], _longest(x, dim)
    if size <= longest:
        return [_scan(op, _cuts(x.shape, dim, size), None)]
    cuts = _cuts(x.shape, dim, longest * PIECE // LONGEST)
    shape = tuple(cut.parts if d == dim else cut.size for d, cut in enumerate(cuts))
    totals, before = (Value(TensorType(shape, op.result.dtype)) for _ in range(2))
    first = reduction(_REDUCED[op.fn], x, totals, (dim,), cuts)
    others = scanning(replace(op, operands=(totals,), results=(before,), exclusive=True))
    return [first, *others, _scan(op, cuts, before)]


def _longest(x: Value, dim: int) -> int:
    inner = max([n for d, n in enumerate(x.shape) if d > dim], default=1)
    return LONGEST // COLUMNS if inner > 1 else LONGEST


def _cuts(shape: tuple[int, ...], dim: int, length: int) -> list[Cut]:
    """Return how each dimension is cut, with pieces of ``length`` along ``dim``."""
    tile = [1] * len(shape)
    tile[dim] = length
    wide = [d for d, n in enumerate(shape) if n > 1 and d != dim]
    if wide:
        beside = COLUMNS if wide[-1] > dim else 1
        tile[wide[-1]] = min(shape[wide[-1]], max(beside, TILE // padded(length)))
    return [Cut(n, t, parts=ceil(n / t)) for n, t in zip(shape, tile, strict=True)]


def _scan(op: IntegerCumulate, cuts: list[Cut], before: Value | None) -> Launch:
    """Return a launch in which each block scans its tile, and combines that with the total
    ``before`` it."""
    x, dim = op.operands[0], op.dim
    grid, where = grid_of(cuts)
    tile = TensorType(tuple(cut.tile for cut in cuts), DType.I64)
    param, value = Value(x.type, x.name), Value(tile)
    ops: list[Op] = [Load((param,), (value,), where)]
    if op.reversed and op.fn is not CumulateFn.SUM and cuts[dim].overhangs:
        fill = NOTHING[op.fn]
        ops.append(Mask((value,), (Value(tile),), dim, where[dim], cuts[dim].size, fill))
        value = ops[-1].result
    ops.append(Cumulate((value,), (Value(tile),), op.fn, dim, op.exclusive, op.reversed))
    operands, params = [x], [param]
    if before is not None:
        operands.append(before)
        params.append(Value(before.type))
        column = TensorType(
            tuple(1 if d == dim else n for d, n in enumerate(tile.shape)), DType.I64
        )
        ops.append(Load((params[-1],), (Value(column),), where))
        steps = (Step(LOAD, ()), Step(LOAD, ()), Step(COMBINED[op.fn].value, (0, 1), DType.I64))
        both = (ops[-2].result, ops[-1].result)
        ops.append(MapIntegers(both, (Value(tile),), Formula(steps)))
    body = BlockGraph(tuple(params), tuple(ops), (Output(ops[-1].result, where),))
    elements = padded(cuts[dim].tile) * max(
        (padded(cut.tile) for d, cut in enumerate(cuts) if d != dim), default=1
    )
    warps = MORE_WARPS if elements > TILE else WARPS
    return Launch(tuple(operands), op.results, grid, body, Schedule(warps=warps, stages=1))
