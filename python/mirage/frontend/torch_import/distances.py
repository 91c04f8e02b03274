"""Rows of distances between points."""

from __future__ import annotations

from mirage.frontend.torch_import.indexing import MOST_COMPARED
from mirage.frontend.torch_import.lowering import Call, Lowering, Row, Unsupported, wide
from mirage.frontend.torch_import.reductions import norm
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Value

MOST_DIFFERENCES = 16 * MOST_COMPARED
"""Numbers that are subtracted from each other, of all pairs of points together."""


def _pairwise(b: Lowering, c: Call) -> Value:
    """``op(x, y, p, mode)``: from each point of ``x[..., m, k]`` to each of ``y[..., n, k]``."""
    x, y = wide(b, c.value(0)), wide(b, c.value(1))
    if not x.shape[-1] or c.result.size * x.shape[-1] > MOST_DIFFERENCES:
        raise Unsupported(f"distances between points of {x.type} and {y.type}")
    from_ = b.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    to = b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    apart = b.binary(BinaryFn.SUB, from_, to)
    return b.typed(norm(b, apart, float(c.number(2, 2.0)), (-1,), False), c.result.dtype)


def _distance(b: Lowering, c: Call) -> Value:
    """``op(x, y, p)``: the norm of what all elements differ by."""
    x, y = wide(b, c.value(0)), wide(b, c.value(1))
    if x.dtype is not y.dtype:
        x, y = b.typed(x, DType.F64), b.typed(y, DType.F64)
    apart = b.binary(BinaryFn.SUB, x, y)
    return b.typed(norm(b, apart, float(c.number(2, 2.0)), (), False), c.result.dtype)


DISTANCES: dict[str, Row] = {
    "aten._cdist_forward": _pairwise,
    "aten.dist": _distance,
}
"""Torch ops of distances."""
