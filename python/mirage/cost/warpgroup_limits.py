"""The requirements of warpgroups on a launch, as in the code generator
(``WarpgroupProducts.h``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from mirage import _target
from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.boxes import fits_box, is_box
from mirage.cost.shifted_loops import dim_of_load, shifted_loads
from mirage.semantics.ugraph import (
    Launch,
    Load,
    Matmul,
    Op,
    Rearrangement,
    Value,
    all_ops,
    loops,
)


def fills_ring(source: Op | None) -> bool:
    """Return whether a factor's source looks rows up that warps copy to a ring, in pieces of 16
    bytes."""
    if source is None or source.names_rows is None:
        return False
    table, tile = source.operands[0], source.result
    width, columns = table.dtype.bytes, tile.shape[-1]
    if tile.dtype is not table.dtype or any(
        n * width % _target.BOX_ROW_UNIT for n in (table.shape[-1], columns)
    ):
        return False
    rows = prod(tile.shape[:-1])
    return rows == 1 or _target.shared_swizzle(rows, columns * width) > 0


def instruction_depth(width: int) -> int:
    """Return the elements of the contraction that one instruction takes, for factors of this number
    of bytes."""
    return _target.WGMMA_BYTES // width


def can_share(rows: int, columns: int, warps: int) -> bool:
    """Return whether groups of four warps can share a product."""
    return bool(_target.warpgroup_grids(rows, columns, warps))


def why_no_warpgroups(launch: Launch) -> str | None:
    """Say which requirement of warpgroups a launch does not meet, on a chip that has them; None if
    it meets all."""
    return next(_reasons(launch), None)


def _reasons(launch: Launch) -> Iterator[str]:
    warps, analysis = launch.schedule.warps, BlockAnalysis(launch)
    around = list(loops(launch))
    if warps % 4:
        yield f"a multiple of 4 warps, got {warps}"
    if not around:
        yield "a loop with a product, got none"
    if any(op in analysis.matmuls for op in launch.body.ops):
        yield "no products outside of loops"
    for loop in around:
        if any(op in around for op in loop.body):
            yield "no loops inside of loops"
        if not any(op in analysis.matmuls for op in loop.body):
            yield "loops that multiply"
    shifted = shifted_loads(analysis)
    for op in analysis.matmuls:
        yield from _reasons_of(op, analysis, shifted)


def _reasons_of(op: Matmul, analysis: BlockAnalysis, shifted: Collection[Load]) -> Iterator[str]:
    left, right = op.operands
    if op.tf32:
        yield from _reasons_of_tf32(op, analysis)
    elif not left.dtype.is_half:
        yield f"factors of f16 or bf16, got {left.dtype.value}"
    eight_bits = any(_eight_bits(x, analysis) for x in op.operands)
    if eight_bits:
        yield from _reasons_of_eight_bits(op, analysis)
    depth = instruction_depth(1 if eight_bits else left.dtype.bytes)
    if left.shape[-1] % depth:
        yield f"a contraction of a multiple of {depth}, got {left.shape[-1]}"
    rows, columns = op.result.shape[-2:]
    if not can_share(rows, columns, analysis.warps):
        yield (
            f"a product that {analysis.warps} warps can share in parts of 64 rows and a multiple "
            f"of 8 columns, got {rows} x {columns}"
        )
    for factor in (left, right):
        if load := analysis.load_of(factor):
            kind = load.operands[0].dtype
            if load.result.dtype is not kind and not kind.is_eight_bits:
                yield f"factors in the type of their tensors, got {load.operands[0].type}"
            fits = fits_box if load in shifted else is_box
            if not fits(load.operands[0].type, load.result.shape):
                yield f"tiles that are boxes, got {load.result.shape} of {load.operands[0].type}"
        elif factor is right and not fills_ring(analysis.source(factor)):
            # A computed factor comes from registers, and only a left factor can.
            yield "a right factor that is loaded and not changed"


def _reasons_of_tf32(op: Matmul, analysis: BlockAnalysis) -> Iterator[str]:
    """Yield the unmet requirements of a product of f32 factors that are rounded to TF32."""
    for factor, along in zip(op.operands, (-1, -2), strict=True):
        is_loaded = analysis.load_of(factor) is not None
        if not is_loaded or not _runs_along(factor, len(factor.shape) + along, analysis):
            yield (
                "factors of f32 that are loaded and whose rows in memory run along the "
                f"contraction, got {factor.type}"
            )


def _eight_bits(factor: Value, analysis: BlockAnalysis) -> bool:
    load = analysis.load_of(factor)
    return load is not None and load.operands[0].dtype.is_eight_bits


def _reasons_of_eight_bits(op: Matmul, analysis: BlockAnalysis) -> Iterator[str]:
    """Yield the unmet requirements of a product with an 8-bit factor."""
    for factor, along in zip(op.operands, (-1, -2), strict=True):
        load = analysis.load_of(factor)
        if load is None or not load.operands[0].dtype.is_eight_bits:
            yield f"factors of 8 bits on both sides, got {factor.type}"
            continue
        tensor, depth = load.operands[0].type, factor.shape[along]
        if not _runs_along(factor, len(factor.shape) + along, analysis):
            yield f"factors of 8 bits whose rows in memory run along the contraction, got {tensor}"
        if depth > _target.PROMOTED_DEPTH:
            yield (
                f"contractions of 8-bit factors of at most {_target.PROMOTED_DEPTH} a step, "
                f"got {depth}"
            )
        if any(analysis.load_of(v) is load for v in _read_by_others(analysis)):
            yield f"tiles of 8 bits that products alone read, got {tensor}"


def _runs_along(value: Value, dim: int, analysis: BlockAnalysis) -> bool:
    """Return whether a dimension of a view is the last one of its source tile, ignoring dimensions
    of size 1."""
    found = dim_of_load(value, dim, analysis)
    return found is not None and prod(found[0].result.shape[found[1] + 1 :]) == 1


def _read_by_others(analysis: BlockAnalysis) -> Iterator[Value]:
    """Yield the values that ops other than products and views read, or that are stored or
    summed."""
    for op in all_ops(analysis.launch.body.ops):
        if op not in analysis.matmuls and not isinstance(op, Rearrangement):
            yield from op.operands
    yield from (output.value for output in analysis.launch.body.outputs)
    yield from analysis.accumulated
