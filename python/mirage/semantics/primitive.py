"""Ops that both levels share, applied to values of a domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes, shape_of
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Slice,
    Transpose,
    Unary,
)


class UnknownOp(TypeError):
    """An op that the evaluator has no rule for."""


def pad_rank(x: Planes, lead: int, rank: int) -> Planes:
    """``x`` with dimensions of size 1 put after its first ``lead`` ones, until ``rank`` others are
    there.
    """
    shape = shape_of(x)
    missing = rank - (len(shape) - lead)
    if missing == 0:
        return x
    return map_planes(lambda p: p.reshape(shape[:lead] + (1,) * missing + shape[lead:]), x)


def apply_primitive(
    domain: Domain, op: Op, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
) -> Planes:
    """The result of ``op`` on ``xs``, all of which carry ``lead`` leading dimensions that
    broadcast.

    ``shape`` is the shape of the result without those. Raises :class:`UnknownOp`.
    """
    dtype = op.result.dtype
    if isinstance(op, Constant):
        return map_planes(lambda p: p.reshape((1,) * lead), domain.constant(op.value, dtype))
    if isinstance(op, Unary):
        return domain.unary(op.fn, xs[0], dtype)
    if isinstance(op, Binary):
        a, b = (pad_rank(x, lead, len(shape)) for x in xs)
        return domain.binary(op.fn, a, b, dtype)
    if isinstance(op, Cast):
        return domain.cast(xs[0], dtype)
    if isinstance(op, Matmul):
        a, b = (pad_rank(x, lead, len(shape)) for x in xs)
        return domain.matmul(a, b, dtype)
    if isinstance(op, Reduce):
        return domain.reduce(op.fn, xs[0], tuple(d + lead for d in op.dims), dtype)
    if isinstance(op, Transpose):
        order = (*range(lead), *(lead + d for d in op.permutation))
        return map_planes(lambda p: p.transpose(order), xs[0])
    if isinstance(op, Reshape):
        return map_planes(lambda p: p.reshape(p.shape[:lead] + shape), xs[0])
    if isinstance(op, Broadcast):
        x = pad_rank(xs[0], lead, len(shape))
        return map_planes(lambda p: np.broadcast_to(p, p.shape[:lead] + shape), x)
    if isinstance(op, Concat):
        common = np.broadcast_shapes(*(shape_of(x)[:lead] for x in xs))
        wide = [map_planes(lambda p: np.broadcast_to(p, common + p.shape[lead:]), x) for x in xs]
        return domain.concat(wide, lead + op.dim)
    if isinstance(op, Slice):
        key = (slice(None),) * lead + tuple(
            slice(o, o + n) for o, n in zip(op.offsets, shape, strict=True)
        )
        return map_planes(lambda p: p[key], xs[0])
    raise UnknownOp(f"expected an op with a meaning at this level, got {type(op).__name__}")
