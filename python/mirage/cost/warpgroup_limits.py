"""What warpgroups ask of a launch, as the code generator does (``WarpgroupProducts.h``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from mirage import _target
from mirage.cost.analysis import BlockAnalysis
from mirage.semantics.ugraph import Launch, Matmul, TensorType, loops

DEPTH = 16
"""Elements of the contraction of one instruction."""


def is_box(tensor: TensorType, tile: Sequence[int]) -> bool:
    """Whether the tensor memory accelerator copies a tile of a tensor."""
    width, rank = tensor.dtype.bytes, len(tensor.shape)
    return (
        _target.MIN_BOX_RANK <= rank <= _target.MAX_BOX_RANK
        and tensor.shape[-1] * width % _target.BOX_ROW_UNIT == 0
        and tile[-1] * width % _target.BOX_TILE_UNIT == 0
        and prod(tile[:-1]) <= _target.MAX_BOX_ROWS
    )


def can_share(rows: int, columns: int, warps: int) -> bool:
    """Whether groups of four warps can share a product."""
    return bool(_target.warpgroup_grids(rows, columns, warps))


def why_no_warpgroups(launch: Launch) -> str | None:
    """What warpgroups would need to multiply for a launch on a chip that has them, and what it has;
    None where they can."""
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
    for op in analysis.matmuls:
        yield from _reasons_of(op, analysis)


def _reasons_of(op: Matmul, analysis: BlockAnalysis) -> Iterator[str]:
    left, right = op.operands
    if not left.dtype.is_half:
        yield f"factors of f16 or bf16, got {left.dtype.value}"
    if left.shape[-1] % DEPTH:
        yield f"a contraction of a multiple of {DEPTH}, got {left.shape[-1]}"
    rows, columns = op.result.shape[-2:]
    if not can_share(rows, columns, analysis.warps):
        yield (
            f"a product that {analysis.warps} warps can share in parts of 64 rows and a multiple "
            f"of 8 columns, got {rows} x {columns}"
        )
    for factor in (left, right):
        if load := analysis.load_of(factor):
            if not is_box(load.operands[0].type, load.result.shape):
                yield f"tiles that are boxes, got {load.result.shape} of {load.operands[0].type}"
        elif factor is right:  # what is computed comes from registers, on the left only
            yield "a right factor that is loaded and not changed"
