"""Rows of distances between points."""

from __future__ import annotations

from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.indexing import MOST_COMPARED
from mirage.frontend.torch_import.rows.reductions.reductions import norm
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Value

MOST_DIFFERENCES = 16 * MOST_COMPARED
"""The most differences of numbers that are computed for all pairs of points together."""
MOST_ROWS = 64
"""The most points that are each compared with all later ones: each takes a slice."""


def _pairwise(b: Lowering, c: Call) -> Value:
    """``op(x, y, p, mode)``: from each point of ``x[..., m, k]`` to each of ``y[..., n, k]``."""
    x, y = wide(b, c.value(0)), wide(b, c.value(1))
    if not x.shape[-1] or c.result.size * x.shape[-1] > MOST_DIFFERENCES:
        raise Unsupported(f"distances between points of {x.type} and {y.type}")
    from_ = b.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    to = b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    apart = b.binary(BinaryFn.SUB, from_, to)
    return b.typed(norm(b, apart, float(c.number(2, 2.0)), (-1,), False), c.result.dtype)


def _of_pairs(b: Lowering, c: Call) -> Value:
    """``op(x, p)``: from each row of ``x[n, k]`` to the later ones, in order."""
    x = wide(b, c.value(0))
    rows = x.shape[0]
    if not 2 <= rows <= MOST_ROWS or not x.shape[1]:
        raise Unsupported(f"distances between the points of {x.type} (limit {MOST_ROWS})")
    apart = [
        b.binary(BinaryFn.SUB, b.cut(x, 0, i, 1), b.cut(x, 0, i + 1, rows - i - 1))
        for i in range(rows - 1)
    ]
    joined = apart[0] if rows == 2 else b.concat(tuple(apart), 0)
    return b.typed(norm(b, joined, float(c.number(1, 2.0)), (-1,), False), c.result.dtype)


def _distance(b: Lowering, c: Call) -> Value:
    """``op(x, y, p)``: the norm of the difference of all elements."""
    x, y = wide(b, c.value(0)), wide(b, c.value(1))
    if x.dtype is not y.dtype:
        x, y = b.typed(x, DType.F64), b.typed(y, DType.F64)
    apart = b.binary(BinaryFn.SUB, x, y)
    return b.typed(norm(b, apart, float(c.number(2, 2.0)), (), False), c.result.dtype)


def _trilinear(b: Lowering, c: Call) -> Value:
    """``op(x, y, z, new_x, new_y, new_z, summed, …)``: the product of three tensors, which get new
    dimensions, summed over some dimensions."""
    factors: list[Value] = []
    for i in range(3):
        x, new = c.value(i), c.integers(3 + i)
        shape = list(x.shape)
        for d in sorted(new):
            shape.insert(d, 1)
        factors.append(b.reshaped(wide(b, x), tuple(shape)))
    x, y, z = factors
    whole = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, x, y), z)
    if whole.type.size > MOST_DIFFERENCES:
        raise Unsupported(f"products of {x.type}, {y.type} and {z.type}")
    return b.typed(b.reduced(ReduceFn.SUM, whole, c.integers(6), False), c.result.dtype)


DISTANCES: dict[str, Row] = {
    "aten._trilinear": _trilinear,
    "aten._cdist_forward": _pairwise,
    "aten._pdist_forward": _of_pairs,
    "aten.dist": _distance,
}
"""Torch ops of distances, and products of three tensors."""
