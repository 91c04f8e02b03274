"""Loops that begin before their first tile, so that a box of rows which start at any element begins
at a multiple of 16 bytes (``ShiftedBoxes.h`` in the compiler, rule for rule)."""

from __future__ import annotations

from math import ceil

from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.boxes import is_box, joined_dims
from mirage.semantics.ugraph import (
    AccumulateFn,
    Load,
    Loop,
    Matmul,
    Op,
    Rearrangement,
    Value,
    loops,
)


def shifted_loads(analysis: BlockAnalysis) -> frozenset[Load]:
    """Return the loads of a launch whose tiles are copied as shifted boxes."""
    if not analysis.launch.schedule.warpgroups:
        return frozenset()
    found = (shifted_load(loop, analysis) for loop in loops(analysis.launch))
    return frozenset(load for load in found if load is not None)


def shifted_factors(analysis: BlockAnalysis) -> set[Value]:
    """Return the tiles that are copied as shifted boxes, and the factors that are views of them."""
    shifted = shifted_loads(analysis)
    factors = {v for op in analysis.matmuls for v in op.operands if analysis.load_of(v) in shifted}
    return factors | {load.result for load in shifted}


def shifted_load(loop: Loop, analysis: BlockAnalysis) -> Load | None:
    """Return the load of a loop of warpgroups whose tile is copied as a shifted box; None if there
    is none."""
    others = [load for load in _loads(loop, analysis) if not _starts_anywhere(load, loop)]
    if len(others) != 1 or not _is_row(others[0], loop) or not _only_sums(loop, analysis):
        return None
    return others[0]


def dim_of_load(value: Value, dim: int, analysis: BlockAnalysis) -> tuple[Load, int] | None:
    """Return the load that a matrix is a view of, and which of its tile's dimensions is dimension
    ``dim`` of the view; None if it is none of them, or one of size 1."""
    view = analysis.definitions.get(value)
    while isinstance(view, Rearrangement):
        dims = view.source_dims()
        if dims is None or dim not in dims:
            return None
        dim, value = dims[dim], view.operands[0]
        view = analysis.definitions.get(value)
    load = analysis.load_of(value)
    return (load, dim) if load is not None and value.shape[dim] > 1 else None


def _loads(loop: Loop, analysis: BlockAnalysis) -> list[Load]:
    """Return the loads of a loop's body."""
    found = (analysis.load_of(result) for op in loop.body for result in op.results)
    return list(dict.fromkeys(load for load in found if load in loop.body))


def _dim_along(load: Load, axis: str) -> int | None:
    """Return the dimension of the load's tensor that an axis cuts."""
    return next((dim for dim, axes in enumerate(load.map) if axis in axes), None)


def _starts_anywhere(load: Load, loop: Loop) -> bool:
    """Return whether a box of the load may begin some elements before any of its tiles."""
    tensor = load.operands[0].type
    along = _dim_along(load, loop.axis.name)
    return is_box(tensor, load.result.shape) and along != len(tensor.shape) - 1


def _is_row(load: Load, loop: Loop) -> bool:
    """Return whether the load's rows are part of longer rows that start at multiples of 16 bytes,
    of which the tile has one position, and run along the loop's axis."""
    tensor, tile = load.operands[0].type, load.result
    along = _dim_along(load, loop.axis.name)
    joined = joined_dims(tensor)
    alone = all(n == 1 for n in tile.shape[-joined:-1])
    return joined > 1 and alone and tile.dtype is tensor.dtype and along == len(tensor.shape) - 1


def _only_sums(loop: Loop, analysis: BlockAnalysis) -> bool:
    """Return whether the loop does nothing but sum products of the tiles that its steps cut."""
    summed = [a.value for a in loop.accumulators]
    plain = all(a.fn is AccumulateFn.SUM and a.rescale is None for a in loop.accumulators)
    return (
        loop.steps is None and plain and all(_sums(op, loop, summed, analysis) for op in loop.body)
    )


def _sums(op: Op, loop: Loop, summed: list[Value], analysis: BlockAnalysis) -> bool:
    for product in analysis.matmuls:
        if product is op:
            alone = summed.count(op.result) == 1 and not analysis.promoted(product)
            return alone and _contracts_steps(product, loop, analysis)
    for load in _loads(loop, analysis):
        if load is op:
            return _takes_turns(load, loop)
    return isinstance(op, Rearrangement) and op.result not in summed


def _contracts_steps(product: Matmul, loop: Loop, analysis: BlockAnalysis) -> bool:
    """Return whether a product contracts, of the loads' tiles, what the loop's steps cut."""
    for factor, along in zip(product.operands, (-1, -2), strict=True):
        found = dim_of_load(factor, len(factor.shape) + along, analysis)
        if found is None or found[0] not in loop.body:
            return False
        if _dim_along(found[0], loop.axis.name) != found[1]:
            return False
    return True


def _takes_turns(load: Load, loop: Loop) -> bool:
    """Return whether the loop's steps are the tiles of the load's tensor along one dimension, from
    its first element to its last one."""
    dim = _dim_along(load, loop.axis.name)
    if dim is None or len(load.map[dim]) != 1:
        return False
    tiles = ceil(load.operands[0].shape[dim] / load.result.shape[dim])
    return loop.axis.extent == tiles
