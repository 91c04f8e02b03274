"""Rows of ops that resize images.

In linear interpolation along one dimension, the weight of old pixel ``i`` in a new pixel is a hat
function of the new pixel's place: ``max(0, 1 - |place - i|)``. So an image is resized by one
product with the hats of its rows and one with those of its columns, which are functions of
positions. An infinite or NaN pixel affects all new pixels of its row and column; in PyTorch it
affects only its neighbours.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.indexing import along
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.numbers import read
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value


def _scales(c: Call, index: int) -> tuple[Fraction, Fraction]:
    """Return the number of old pixels per new one, along rows and columns: one over the given
    factor (argument ``index``), or the ratio of the sizes."""
    x, y = c.value(0).shape[-2:], c.result.shape[-2:]
    given = c.arg(index)
    if not isinstance(given, list):
        return Fraction(x[0], y[0]), Fraction(x[1], y[1])
    factors = [f for f in given if isinstance(f, int | float) and f > 0]  # pyright: ignore
    if len(factors) != 2:
        raise Unsupported(f"factors of {given}")
    high, across = (1 / Fraction(read(float(f))) for f in factors)
    return high, across


def _hats(b: Lowering, old: int, new: int, scale: Fraction, corners: bool, dtype: DType) -> Value:
    """Return the weights of the old pixels in each new one, ``[new, old]``."""
    place = b.typed(iota(b, (new,), 0), dtype)
    if corners:
        place = b.combine(BinaryFn.MUL, place, Fraction(old - 1, max(new - 1, 1)))
    else:
        place = b.combine(BinaryFn.MUL, b.combine(BinaryFn.ADD, place, Fraction(1, 2)), scale)
        place = b.combine(BinaryFn.MAX, b.combine(BinaryFn.SUB, place, Fraction(1, 2)), 0)
        place = b.combine(BinaryFn.MIN, place, old - 1)
    pixel = b.typed(iota(b, (old,), 0), dtype)
    apart = b.binary(BinaryFn.SUB, b.reshape(place, (new, 1)), b.reshape(pixel, (1, old)))
    return b.unary(UnaryFn.RELU, b.combine(BinaryFn.SUB, 1, b.unary(UnaryFn.ABS, apart)))


def _bilinear(b: Lowering, c: Call) -> Value:
    """``op(x[N, C, H, W], output_size, align_corners, scale_factors)``."""
    x, corners = c.value(0), bool(c.arg(2))
    y = wide(b, x)
    sizes = zip(x.shape[-2:], c.result.shape[-2:], _scales(c, 3), strict=True)
    for dim, (old, new, scale) in zip((-2, -1), sizes, strict=True):
        if old == new and (corners or scale == 1):
            continue  # each pixel is itself
        hats = _hats(b, old, new, scale, corners, y.dtype)
        y = b.matmul(hats, y) if dim == -2 else b.matmul(y, b.swapped(hats, 0, 1))
    return b.typed(y, x.dtype)


def _nearest(b: Lowering, c: Call) -> Value:
    """``op(x[N, C, H, W], output_size, scale_factors)``: each pixel is repeated, or each new pixel
    takes the old one that its place falls into."""
    x = c.value(0)
    times = [1 / scale for scale in _scales(c, 2)]
    sizes = [n * t for n, t in zip(x.shape[-2:], times, strict=True)]
    if any(t.denominator != 1 for t in times) or sizes != list(c.result.shape[-2:]):
        for dim, scale in zip((-2, -1), _scales(c, 2), strict=True):
            x = _rows_at(b, x, len(x.shape) + dim, c.result.shape[dim], scale)
        return x
    front, (high, across) = x.shape[:-2], x.shape[-2:]
    y = b.reshape(x, (*front, high, 1, across, 1))
    y = b.broadcast(y, (*front, high, int(times[0]), across, int(times[1])))
    return b.reshape(y, c.result.shape)


def _rows_at(b: Lowering, x: Value, dim: int, new: int, scale: Fraction) -> Value:
    """Return the pixels at ``floor(i scale)`` along ``dim``, clamped to the last one. PyTorch
    multiplies in f32, and the result must fall into the same pixels."""
    old = x.shape[dim]
    theirs = np.floor(np.arange(new, dtype=np.float32) * np.float32(float(scale)))
    ours = [i * scale.numerator // scale.denominator for i in range(new)]
    if [min(int(i), old - 1) for i in theirs] != [min(i, old - 1) for i in ours]:
        raise Unsupported(f"the nearest of {old} pixels for {new}")
    at = b.combine(BinaryFn.MUL, iota(b, (new,), 0), scale.numerator)
    at = b.combine(BinaryFn.FLOOR_DIV, at, scale.denominator)
    return along(b, x, dim, b.combine(BinaryFn.MIN, at, old - 1))


RESIZE: dict[str, Row] = {
    "aten.upsample_bilinear2d.vec": _bilinear,
    "aten.upsample_nearest2d.vec": _nearest,
}
"""Torch ops that resize images."""
