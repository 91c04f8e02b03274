"""The blocks of an op's operands from which a block of its result is computed."""

from __future__ import annotations

from math import prod

import numpy as np

from mirage.semantics.ops.kinds import Contraction, Elementwise, Movement
from mirage.semantics.ops.op import Op
from mirage.semantics.region import (
    Region,
    contiguous_start,
    region_shape,
    reshape_groups,
)

Shape = tuple[int, ...]
Block = tuple[Shape, Shape]
"""The offsets and sizes of a block."""

MOVABLE = Elementwise | Movement | Contraction
"""The kinds of ops for which a block of the result is the op on blocks of the operands."""


def operand_blocks(op: Op, block: Block) -> list[Block | None] | None:
    """Return the blocks of the operands that a block of the result is computed from; an entry is
    None if the operand is not needed. Return None if what is needed is not blocks, or if the op
    stays whole.
    """
    if not isinstance(op, MOVABLE):
        return None
    shapes = [v.shape for v in op.operands]
    if op.renames:
        inner = _reshaped(shapes[0], op.result.shape, block)
        return None if inner is None else [inner]
    cuts = zip(*block, op.result.shape, strict=True)
    region = tuple(None if n == whole else np.arange(o, o + n) for o, n, whole in cuts)
    blocks = [_block(r, s) for r, s in zip(op.needs(region), shapes, strict=True)]
    if op.joined_along is not None and sum(b is not None for b in blocks) > 1:
        return None
    return blocks


def _block(region: Region, shape: tuple[int, ...]) -> Block | None:
    """Return a region of consecutive indices as a block; None for an empty one."""
    if any(r is not None and len(r) == 0 for r in region):
        return None
    offsets = tuple(0 if r is None else int(r[0]) for r in region)
    return offsets, region_shape(region, shape)


def _reshaped(old: tuple[int, ...], new: tuple[int, ...], block: Block) -> Block | None:
    """Return the block of a reshape's operand that has the elements of a block of its result."""
    if 0 in (*old, *block[1]):
        return None
    offsets, sizes = [0] * len(old), list(old)
    for group in reshape_groups(old, new):
        whole, part, starts = ([x[j] for j in group.result] for x in (new, block[1], block[0]))
        if part == whole:
            continue
        start = contiguous_start(whole, part, starts)
        if start is None:
            return None
        inner = _of_span([old[i] for i in group.operand], start, prod(part))
        if inner is None:
            return None
        for i, offset, size in zip(group.operand, *inner, strict=True):
            offsets[i], sizes[i] = offset, size
    return tuple(offsets), tuple(sizes)


def _of_span(shape: list[int], start: int, count: int) -> tuple[list[int], list[int]] | None:
    """Return the offsets and sizes of the block with the ``count`` contiguous elements from
    ``start`` on; None if they do not form a block.
    """
    offsets, sizes = [0] * len(shape), [1] * len(shape)
    inner, dim = 1, len(shape) - 1  # elements of an index of `dim`
    while dim >= 0 and start % (inner * shape[dim]) == count % (inner * shape[dim]) == 0:
        sizes[dim] = shape[dim]
        inner, dim = inner * shape[dim], dim - 1
    if dim >= 0:
        sizes[dim] = count // inner
        if start % inner or count % inner or start // inner % shape[dim] + sizes[dim] > shape[dim]:
            return None
    for outer in reversed(range(dim + 1)):
        offsets[outer] = start // inner % shape[outer]
        inner *= shape[outer]
    return offsets, sizes
